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

// identity is the node's identity in this boot, from init or, if the node booted without a server, from a server
// later.
type identity struct {
	dir     string // the run directory
	release string
	session rundir.Session
	joined  atomic.Pointer[rundir.Session] // set when a node that booted without a server has one
}

// Self returns the node's identity in this boot.
func (i *identity) Self() rundir.Session {
	if s := i.joined.Load(); s != nil {
		return *s
	}
	return i.session
}

// offset returns the time since init started, by CLOCK_MONOTONIC.
func (i *identity) offset() time.Duration { return rundir.Monotonic() - i.session.Origin }

// sender sends reports and events to the server, and passes the server's answers to answered.
type sender struct {
	who        *identity
	record     *record
	control    *control.Client
	report     *control.Reporter
	log        io.Writer
	extensions func() ([]fleet.Extension, string) // the attached extensions
	answered   func(api.ReportResponse)

	spoke atomic.Pointer[time.Time] // when the server last accepted a report
}

// post sends events. It logs and drops events that the server will never accept, because they would block all later
// ones.
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
		events[i].Boot = self.Boot // events from before the first answer of a server have none
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

// say sends a report and passes the answer on.
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

// Info queues a fact under the node's current stage.
func (v *sender) Info(message, hint string) {
	stage := trace.SwitchRoot
	if v.record.up.Load() {
		stage = trace.Booted
	}
	v.event(trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
}

// Flush sends what is queued.
func (v *sender) Flush(ctx context.Context) error { return v.report.Flush(ctx) }

// RootLost reports that this boot ends because the root is no longer served. It returns when a server has the report,
// or ctx ends.
func (v *sender) RootLost(ctx context.Context, why string) {
	v.event(trace.Event{Stage: trace.Shutdown, Kind: trace.Fail, Message: why,
		Attrs: map[string]string{trace.AttrRootLost: "true"}})
	for v.report.Flush(ctx) != nil {
		if backoff.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// goesDown reports that the machine goes down, and whether it switches itself off.
func (v *sender) goesDown(ctx context.Context, off bool) {
	if off {
		v.end(ctx, "the machine switches itself off", map[string]string{trace.AttrOff: "true"})
		return
	}
	v.Goodbye(ctx, "the machine goes down")
}

// Goodbye reports that this boot is over.
func (v *sender) Goodbye(ctx context.Context, message string) { v.end(ctx, message, nil) }

func (v *sender) end(ctx context.Context, message string, attrs map[string]string) {
	v.event(trace.Event{Stage: trace.Shutdown, Kind: trace.End, Message: message, Attrs: attrs})
	if err := v.report.Flush(ctx); err != nil {
		v.logf("report: %v", err)
	}
}

func (v *sender) logf(format string, args ...any) { fmt.Fprintf(v.log, format+"\n", args...) }
