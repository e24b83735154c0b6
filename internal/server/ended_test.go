package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// TestSwitchesItselfOff: a version whose machine powers off before it is up has failed at that moment. Its rollout does
// not wait any longer.
func TestSwitchesItselfOff(t *testing.T) {
	r := startRolling(t, 2)
	began := r.begin(fleet.RolloutPlan{Canary: "1", MaxUnavailable: "2", Soak: time.Hour})
	var p *played
	for range 20 {
		if err := r.rollouts.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, n := range r.nodes {
			if n.report(nil) != nil {
				p = n
			}
		}
		if p != nil {
			break
		}
		r.clock.add(5 * time.Second)
	}
	if p == nil {
		t.Fatal("no node is asked to reboot")
	}
	p.report(nil, trace.Event{Stage: trace.Shutdown, Kind: trace.End, Offset: p.uptime})
	cfg := p.load()
	p.boot, p.session = cfg.Boot, "Bearer "+p.register(cfg).Session
	p.uptime = 10 * time.Second
	p.report(nil, trace.Event{Stage: trace.SwitchRoot, Kind: trace.End, Offset: p.uptime})
	p.report(nil, trace.Event{Stage: trace.Shutdown, Kind: trace.End, Message: "the machine switches itself off",
		Attrs: map[string]string{trace.AttrOff: "true"}, Offset: p.uptime})
	for range 2 { // one look finds its boot, and judges it
		r.clock.add(time.Second)
		if err := r.rollouts.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	x, err := r.c.Rollout(t.Context(), began.ID)
	if err != nil {
		t.Fatal(err)
	}
	if x.State != fleet.RolloutRollingBack || !strings.Contains(x.Reason, "switches itself off") {
		t.Errorf("seconds later the rollout is %s: %q", x.State, x.Reason)
	}
	failed, err := r.c.FailedBoots(t.Context(), "", 0)
	if err != nil || !slices.ContainsFunc(failed, func(b api.Boot) bool {
		return b.ID == p.boot && b.Fault.Kind == trace.NotStarted
	}) {
		t.Errorf("failed boots: %+v, %v", failed, err)
	}
}

// TestRootLost: a node that restarts because reads of its root get no answer reports that, and is not shown as up. Its
// next boot says why the one before ended.
func TestRootLost(t *testing.T) {
	r := startRolling(t, 1)
	p := r.nodes[0]
	p.report(nil, trace.Event{Stage: trace.Shutdown, Kind: trace.Fail, Message: "its block daemon is gone",
		Attrs: map[string]string{trace.AttrRootLost: "true"}, Offset: p.uptime})
	died := p.boot
	failed, err := r.c.FailedBoots(t.Context(), "", 0)
	if err != nil || len(failed) != 1 || failed[0].ID != died || failed[0].Fault.Kind != trace.RootLost ||
		failed[0].State != trace.Failed {
		t.Errorf("failed boots: %+v, %v", failed, err)
	}
	p.up(r)
	if b, err := r.c.Boot(t.Context(), died); err != nil || b.State != trace.Failed || b.Fault == nil ||
		b.Fault.Kind != trace.RootLost {
		t.Errorf("the boot that ended is %s, %+v, %v", b.State, b.Fault, err)
	}
	b, err := r.c.Boot(t.Context(), p.boot)
	if err != nil {
		t.Fatal(err)
	}
	if text := allText(b); !strings.Contains(text, "its block daemon is gone") ||
		!strings.Contains(text, string(died)) {
		t.Errorf("the next boot's timeline does not tell: %s", text)
	}
}

func allText(b api.BootDetail) string {
	var out strings.Builder
	for _, e := range b.Events {
		out.WriteString(e.Message + "\n")
	}
	return out.String()
}
