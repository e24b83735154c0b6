package initrd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/trace"
)

// How long init waits for its last events to be sent. The agent sends the rest.
const (
	switchFlush = 500 * time.Millisecond
	rebootFlush = 5 * time.Second
)

// channel knows which credential can send events. The phases write it, the reporter reads it.
type channel struct {
	session atomic.Pointer[string] // set after registration
	network atomic.Bool            // the node has an address
	failed  atomic.Bool            // a phase failed: report it before registration
}

var errNoChannel = errors.New("the server cannot be reached yet")

// authorization returns the header value for sending events, "" if there is none yet. Before registration the boot's
// token can send events too. It is used only after a failure, because a good boot registers a moment later.
func (c *channel) authorization(token string) string {
	if s := c.session.Load(); s != nil {
		return "Bearer " + *s
	}
	if c.network.Load() && c.failed.Load() && token != "" {
		return "Boot " + token
	}
	return ""
}

// post sends events with the best credential that it has.
func (l *timeline) post(ctx context.Context, events []trace.Event) error {
	auth := l.channel.authorization(l.token())
	if auth == "" {
		return errNoChannel
	}
	for i := range events {
		events[i].Boot = l.bootID() // the first events of a boot from a medium have no boot ID yet
	}
	req := api.ReportRequest{
		Boot:    l.bootID(),
		Events:  events,
		Uptime:  time.Since(l.started),
		Console: kernelLog(events),
	}
	err := l.control.Call(ctx, "/v1/node/events", auth, req, nil)
	if control.ForGood(err) {
		l.console.logf("%d events refused: %v", len(events), err)
		return nil // keeping them would block later events
	}
	return err
}

// collect waits, at most for limit, until the stopped reporter has put back the events that it was sending.
func (l *timeline) collect(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l.report.Idle(ctx)
}

// flush sends the queued events, for at most limit.
func (l *timeline) flush(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.report.Flush(ctx) // the rest is left to the agent, or lost with the reboot
}
