package boot

import (
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
	"pando/internal/trace"
)

func timelineOf(id fleet.BootID, node string, events []trace.Event) api.BootDetail {
	var p trace.Progress
	for _, e := range events {
		p.Apply(e)
	}
	b := api.BootDetail{
		Boot: api.Boot{ID: id, Node: node, Started: clikit.Start(), State: p.State, Stage: p.Stage,
			Elapsed: p.Elapsed(), Failure: p.Failure, Hint: p.Hint, Bytes: p.Bytes},
		Events: events,
	}
	for _, s := range trace.NewTimeline(events).Steps {
		b.Steps = append(b.Steps, api.Step(s))
	}
	b.SystemdStart, _ = trace.KernelStart(events)
	return b
}

// TestTimeline: a boot that came up with systemd's figures, and one that failed.
func TestTimeline(t *testing.T) {
	env, out := clikit.Env()
	shown := func(id fleet.BootID, node string, failed bool) api.BootDetail {
		boot := registry.Boot{ID: id, Node: node, Started: clikit.Start()}
		return timelineOf(id, node, clikit.Events(boot, failed))
	}
	b := shown("a1", "pc001", false)
	b.Systemd = clikit.Systemd()
	for _, g := range trace.NewTimeline(b.Events).Gaps(b.Units(), b.Events) {
		b.Gaps = append(b.Gaps, api.Gap(g))
	}
	printTimeline(env, b)
	env.Printf("\n")
	b = shown("a2", "pc002", true)
	printTimeline(env, b)
	printEvents(env, b)
	testkit.Golden(t, *update, "timeline.txt", out.String())
}

// All incidents of the root device are printed in order, with hints; of very many only the last.
func TestTimelineHasIncidents(t *testing.T) {
	at := func(seconds int, stage trace.Stage, kind trace.Kind) trace.Event {
		return trace.Event{
			Boot:  "a1",
			Node:  "pc001",
			Stage: stage,
			Kind:  kind,
			Time:  clikit.Start().Add(time.Duration(seconds) * time.Second),
		}
	}
	events := []trace.Event{
		at(0, trace.Init, trace.Begin),
		at(9, trace.SwitchRoot, trace.Begin),
		at(10, trace.SwitchRoot, trace.End),
		at(30, trace.Booted, trace.End),
	}
	add := func(seconds int, stage trace.Stage, kind, hint string) {
		e := at(seconds, stage, trace.Info)
		e.Message, e.Hint, e.Attrs = kind+": what happened", hint, map[string]string{trace.AttrIncident: kind}
		events = append(events, e)
	}
	add(20, trace.SwitchRoot, "tracker-up", "")
	add(8, trace.SwitchRoot, "server-down", "does it run?") // before its stage: it came late
	add(12, trace.SwitchRoot, "tracker-lost", "does it run?")
	env, out := clikit.Env()
	printTimeline(env, timelineOf("a1", "pc001", events))
	for i := range mostIncidents {
		add(40+i, trace.Booted, "peer-left", "")
	}
	b := timelineOf("a1", "pc001", events)
	env.Printf("\n")
	printIncidents(env, b)
	testkit.Golden(t, *update, "timeline_incidents.txt", out.String())
}

func TestBar(t *testing.T) {
	for _, k := range [][3]time.Duration{{0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {5, 5, 5}, {-3, 1, 10}, {9, 100, 10}} {
		if got := bar(k[0], k[1], k[2]); len(got) != barWidth {
			t.Errorf("bar(%v) is %q, %d columns", k, got, len(got))
		}
	}
}
