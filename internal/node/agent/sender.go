package agent

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// identity is who the node is in this boot: what init left, or what a server gave since.
type identity struct {
	dir     string // the run directory
	release string
	session rundir.Session
	joined  atomic.Pointer[rundir.Session] // of a node that booted without a server, when it has one
}

// Self is who the node is in this boot.
func (i *identity) Self() rundir.Session {
	if s := i.joined.Load(); s != nil {
		return *s
	}
	return i.session
}

// offset is the time since init started, by the clock that all processes of a boot share.
func (i *identity) offset() time.Duration { return rundir.Monotonic() - i.session.Origin }

// sender sends reports and events to the server, and passes on what the server asks for in its answers.
type sender struct {
	who        *identity
	record     *record
	control    *control.Client
	report     *control.Reporter
	log        io.Writer
	extensions func() ([]fleet.Extension, string) // that are laid over the root
	answered   func(api.ReportResponse)

	spoke atomic.Pointer[time.Time] // when the server last accepted a report
}

// post sends events. Events that the server will never accept are logged and dropped: keeping them would block all that
// come later.
func (v *sender) post(ctx context.Context, events []trace.Event) error {
	err := v.send(ctx, events, nil)
	if !control.ForGood(err) {
		return err
	}
	for _, e := range events {
		v.logf("event refused: %s %s %q: %v", e.Stage, e.Kind, e.Message, err)
	}
	return nil
}

func (v *sender) send(ctx context.Context, events []trace.Event, status *api.NodeStatus) error {
	if events == nil {
		events = []trace.Event{}
	}
	self := v.who.Self()
	for i := range events {
		events[i].Boot = self.Boot // those of before a server answered have none
	}
	has, _ := v.extensions()
	return v.say(ctx, api.ReportRequest{
		Boot:       self.Boot,
		Events:     events,
		Uptime:     v.who.offset(),
		Status:     status,
		Extensions: fleet.ExtensionsKey(has),
	})
}

// say sends a report, and passes on what the server asks for in its answer.
func (v *sender) say(ctx context.Context, req api.ReportRequest) error {
	var answer api.ReportResponse
	if err := v.control.Call(ctx, "/v1/node/events", "Bearer "+v.who.Self().Session, req, &answer); err != nil {
		return err
	}
	now := time.Now()
	v.spoke.Store(&now)
	v.answered(answer)
	return nil
}

// event queues an event of the running node.
func (v *sender) event(e trace.Event) {
	e.Boot, e.Node, e.MAC = v.who.Self().Boot, v.who.session.Node, v.who.session.MAC
	if e.Offset == 0 {
		e.Offset = v.who.offset()
	}
	v.report.Add(e)
}

// Info queues a fact, under the stage that the node is in.
func (v *sender) Info(message, hint string) {
	stage := trace.SwitchRoot
	if v.record.up.Load() {
		stage = trace.Booted
	}
	v.event(trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
}

// Flush sends what is queued.
func (v *sender) Flush(ctx context.Context) error { return v.report.Flush(ctx) }

// RootLost tells that this boot ends because nobody serves the root any more. It returns when a server knows, or ctx
// ends.
func (v *sender) RootLost(ctx context.Context, why string) {
	v.event(trace.Event{Stage: trace.Shutdown, Kind: trace.Fail, Message: why,
		Attrs: map[string]string{trace.AttrRootLost: "true"}})
	for v.report.Flush(ctx) != nil {
		if backoff.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// goesDown tells that the machine ends, and whether it stays off.
func (v *sender) goesDown(ctx context.Context, off bool) {
	if off {
		v.end(ctx, "the machine switches itself off", map[string]string{trace.AttrOff: "true"})
		return
	}
	v.Goodbye(ctx, "the machine goes down")
}

// Goodbye tells that this boot is over.
func (v *sender) Goodbye(ctx context.Context, message string) { v.end(ctx, message, nil) }

func (v *sender) end(ctx context.Context, message string, attrs map[string]string) {
	v.event(trace.Event{Stage: trace.Shutdown, Kind: trace.End, Message: message, Attrs: attrs})
	if err := v.report.Flush(ctx); err != nil {
		v.logf("report: %v", err)
	}
}

func (v *sender) logf(format string, args ...any) { fmt.Fprintf(v.log, format+"\n", args...) }
