package boot

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// How long after booted the recording of reads goes on, and when it is sent again after that failed. What a person sees
// next, a log-in screen or a service that starts late, belongs to the boot.
const (
	readsGrace = 30 * time.Second
	readsAgain = time.Minute
)

// sendReads ends the recording of the boot's reads when it is time, and sends it. It is sent once in a boot.
func (a *agent) sendReads(ctx context.Context) {
	if !a.readsDue(monotonic()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	a.traceAt = monotonic() + readsAgain
	reads, err := a.block.EndReads(ctx)
	if err != nil {
		a.logf("%v", err) // the block daemon is being replaced
		return
	}
	req := api.TraceRequest{Boot: a.session.Boot, Version: a.session.Version, Reads: reads.Reads,
		Partial: reads.Partial, Uptime: a.offset(), Pack: reads.Pack, Hits: reads.Hits, Misses: reads.Misses,
		Wasted: reads.Wasted}
	err = a.control.call(ctx, "/v1/node/trace", "Bearer "+a.session.Session, req, nil)
	switch {
	case forGood(err):
		a.logf("read trace refused: %v", err)
	case err != nil:
		a.logf("send the read trace: %v", err)
		return
	}
	a.progress.Traced = true
	a.keepProgress()
	a.event(trace.Event{Stage: trace.Booted, Kind: trace.Info, Message: reads.message()})
}

func (a *agent) readsDue(now time.Duration) bool {
	return a.booted.Load() && !a.progress.Traced && now >= max(a.progress.BootedAt+readsGrace, a.traceAt)
}
