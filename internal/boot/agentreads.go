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

// readsLongest is how long after booted a mark is waited for that reads are to be recorded until.
const readsLongest = 15 * time.Minute

// sendReads ends the recording of the boot's reads when it is time, and sends it. It is sent once in a boot.
func (a *agent) sendReads(ctx context.Context) {
	if !a.readsDue(monotonic()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	a.traceAt = monotonic() + readsAgain
	if err := a.report.flush(ctx); err != nil { // the server keeps the boot's marks with the trace
		a.logf("events before the read trace: %v", err)
		return
	}
	if err := a.endReads(ctx); err != nil {
		a.logf("%v", err) // the block daemon is being replaced
		return
	}
	err := a.control.call(ctx, "/v1/node/trace", "Bearer "+a.self().Session, a.reads, nil)
	switch {
	case forGood(err):
		a.logf("read trace refused: %v", err)
	case err != nil:
		a.logf("send the read trace: %v", err)
		return
	}
	a.progress.Traced, a.reads = true, nil
	a.keepProgress()
}

// endReads asks the block daemon for the recording, and puts on the timeline how the boot pack did.
func (a *agent) endReads(ctx context.Context) error {
	if a.reads != nil {
		return nil
	}
	r, err := a.block.EndReads(ctx)
	if err != nil {
		return err
	}
	a.reads = &api.TraceRequest{Boot: a.self().Boot, Version: a.session.Version, Reads: r.Reads, Partial: r.Partial,
		Uptime: a.offset(), Began: a.sinceInit(r.Began), Pack: r.Pack, Hits: r.Hits, Misses: r.Misses, Wasted: r.Wasted, Late: r.Late,
		Until: a.session.Until, Reached: a.session.Until != "" && a.progress.Until}
	a.event(trace.Event{Stage: trace.Booted, Kind: trace.Info, Message: r.message(), Attrs: r.attrs()})
	return nil
}

// sinceInit makes a moment of CLOCK_MONOTONIC one of the boot's timeline; 0: it is not known.
func (a *agent) sinceInit(at time.Duration) time.Duration {
	if at == 0 {
		return 0
	}
	return at - a.session.Origin
}

func (a *agent) readsDue(now time.Duration) bool {
	end := a.progress.BootedAt + readsGrace
	if a.session.Until != "" && !a.progress.Until {
		end = a.progress.BootedAt + readsLongest
	}
	return a.booted.Load() && !a.progress.Traced && now >= max(end, a.traceAt)
}
