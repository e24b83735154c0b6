package agent

import (
	"context"
	"strings"
	"time"

	"pando/internal/rundir"
	"pando/internal/systemd"
	"pando/internal/trace"
)

// waitsEvery is how often a boot that takes long is looked at. What it waits for is told when it was seen twice.
const waitsEvery = 10 * time.Second

// waits tells what a boot waits for before its default target.
type waits struct {
	sender     *sender
	record     *record
	systemctl  func(context.Context, ...string) (string, error)
	next       time.Duration // on the clock of init
	last, told string
}

func (w *waits) look(ctx context.Context) {
	now := w.sender.who.offset()
	if w.record.up.Load() || now < w.next {
		return
	}
	begins := w.next == 0
	if w.next = now + waitsEvery; begins {
		return // most boots are done before anything is asked
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
