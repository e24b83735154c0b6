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

// Time given to the last events of init. The agent sends what is left.
const (
	switchFlush = 500 * time.Millisecond
	rebootFlush = 5 * time.Second
)

// channel tells by which right events can be sent. The phases write it, the reporter reads it.
type channel struct {
	session atomic.Pointer[string] // after hello
	network atomic.Bool            // the node has an address
	failed  atomic.Bool            // something failed: do not wait for hello with the news
}

var errNoChannel = errors.New("no way to the server yet")

// authorization is the header value that lets events through, "" while there is none. Before hello the
// boot's token appends events too; it is used for that only when there is bad news, since a boot that goes
// well is at hello a moment later.
func (c *channel) authorization(token string) string {
	if s := c.session.Load(); s != nil {
		return "Bearer " + *s
	}
	if c.network.Load() && c.failed.Load() && token != "" {
		return "Boot " + token
	}
	return ""
}

// post sends events by the best right that there is.
func (l *timeline) post(ctx context.Context, events []trace.Event) error {
	auth := l.channel.authorization(l.token())
	if auth == "" {
		return errNoChannel
	}
	for i := range events {
		events[i].Boot = l.bootID() // those of a boot medium's first phases have none
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
		return nil // keeping them would hold up the rest
	}
	return err
}

// collect gets back, within a bounded time, what was being sent when the reporter was stopped.
func (l *timeline) collect(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l.report.Idle(ctx)
}

// flush gives the reporter a bounded time to send what it has.
func (l *timeline) flush(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.report.Flush(ctx) // what is left is handed to the agent, or lost with the reboot
}
