package agent

import (
	"context"
	"strings"
	"time"

	"pando/internal/rundir"
	"pando/internal/systemd"
	"pando/internal/trace"
)

// waitsEvery is the interval at which a slow boot is examined. What it waits for is reported when two examinations in
// a row find the same.
const waitsEvery = 10 * time.Second

// waits reports what a boot waits for before its default target.
type waits struct {
	sender     *sender
	record     *record
	systemctl  func(context.Context, ...string) (string, error)
	next       time.Duration // offset of the next examination
	last, told string
}

func (w *waits) look(ctx context.Context) {
	now := w.sender.who.offset()
	if w.record.up.Load() || now < w.next {
		return
	}
	begins := w.next == 0
	if w.next = now + waitsEvery; begins {
		return // most boots are complete before the second examination
	}
	e := trace.Event{Stage: trace.SwitchRoot, Kind: trace.Info,
		Message: trace.WaitsFor + strings.Join(systemd.Waits(ctx, w.systemctl), " ")}
	if why := strings.TrimSpace(readText(w.sender.who.dir, rundir.WaitsName, 500)); why != "" {
		e.Stage, e.Kind, e.Message = trace.Booted, trace.Fail, why
	}
	if e.Message == w.last && e.Message != w.told && e.Message != trace.WaitsFor {
		w.told = e.Message
		w.sender.event(e)
	}
	w.last = e.Message
}
