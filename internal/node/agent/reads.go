package agent

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/rundir"
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

// reads sends what this boot read of its root, once.
type reads struct {
	who    *identity
	sender *sender
	record *record
	block  blockapi.Client

	trace *api.TraceRequest // once it was asked for
	at    time.Duration     // CLOCK_MONOTONIC before which it is not sent (again)
}

// send ends the recording of the boot's reads when it is time, and sends it. It is sent once in a boot.
func (x *reads) send(ctx context.Context) {
	if !x.due(rundir.Monotonic()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	x.at = rundir.Monotonic() + readsAgain
	if err := x.sender.report.Flush(ctx); err != nil { // the server keeps the boot's marks with the trace
		x.sender.logf("events before the read trace: %v", err)
		return
	}
	if err := x.end(ctx); err != nil {
		x.sender.logf("%v", err) // the block daemon is being replaced
		return
	}
	err := x.sender.control.Call(ctx, "/v1/node/trace", "Bearer "+x.who.Self().Session, x.trace, nil)
	switch {
	case control.ForGood(err):
		x.sender.logf("read trace refused: %v", err)
	case err != nil:
		x.sender.logf("send the read trace: %v", err)
		return
	}
	x.record.Traced, x.trace = true, nil
	x.record.keep()
}

// end asks the block daemon for the recording, and puts on the timeline how the boot pack did.
func (x *reads) end(ctx context.Context) error {
	if x.trace != nil {
		return nil
	}
	r, err := x.block.EndReads(ctx)
	if err != nil {
		return err
	}
	x.trace = &api.TraceRequest{
		Boot:        x.who.Self().Boot,
		Version:     x.who.session.Version,
		Reads:       r.Reads,
		Partial:     r.Partial,
		Uptime:      x.who.offset(),
		Began:       x.sinceInit(r.Began),
		Pack:        r.Pack,
		Hits:        r.Hits,
		Misses:      r.Misses,
		Wasted:      r.Wasted,
		WastedLater: r.WastedLater,
		Until:       x.who.session.Until,
		Reached:     x.who.session.Until != "" && x.record.Until,
	}
	x.sender.event(trace.Event{Stage: trace.Booted, Kind: trace.Info, Message: r.Message(), Attrs: r.Attrs()})
	return nil
}

// sinceInit makes a moment of CLOCK_MONOTONIC one of the boot's timeline; 0: it is not known.
func (x *reads) sinceInit(at time.Duration) time.Duration {
	if at == 0 {
		return 0
	}
	return at - x.who.session.Origin
}

func (x *reads) due(now time.Duration) bool {
	end := x.record.BootedAt + readsGrace
	if x.who.session.Until != "" && !x.record.Until {
		end = x.record.BootedAt + readsLongest
	}
	return x.record.up.Load() && !x.record.Traced && now >= max(end, x.at)
}
