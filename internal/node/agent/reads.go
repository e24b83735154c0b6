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

// The recording of reads goes on for readsGrace after booted: a log-in screen or a service that starts late belongs
// to the boot. If sending fails, it is repeated after readsAgain.
const (
	readsGrace = 30 * time.Second
	readsAgain = time.Minute
)

// readsLongest is how long after booted the recording waits for the mark that is to end it.
const readsLongest = 15 * time.Minute

// reads sends the recording of what this boot read of its root, once.
type reads struct {
	who    *identity
	sender *sender
	record *record
	block  blockapi.Client

	trace *api.TraceRequest // nil until the block daemon returned the recording
	at    time.Duration     // CLOCK_MONOTONIC of the next attempt
}

// send ends the recording of the boot's reads when it is due, and sends it, once per boot.
func (x *reads) send(ctx context.Context) {
	if !x.due(rundir.Monotonic()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	x.at = rundir.Monotonic() + readsAgain
	if err := x.sender.report.Flush(ctx); err != nil { // the server stores the marks with the trace
		x.sender.logf("events cannot be sent before the read trace: %v", err)
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
		x.sender.logf("read trace cannot be sent: %v", err)
		return
	}
	x.record.Traced, x.trace = true, nil
	x.record.keep()
}

// end gets the recording from the block daemon, and puts on the timeline how well the boot pack fit.
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

// sinceInit converts CLOCK_MONOTONIC to an offset of the boot's timeline. 0 means unknown.
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
