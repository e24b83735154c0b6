package rollout

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pando/internal/fleet"
)

// aPlan is a plan that uses every option.
func aPlan(t *rapid.T) fleet.RolloutPlan {
	p := fleet.RolloutPlan{
		Canary:         rapid.SampledFrom([]fleet.Portion{"1", "2", "20%"}).Draw(t, "canary"),
		Wave:           rapid.SampledFrom([]fleet.Portion{"1", "30%", "100%"}).Draw(t, "wave"),
		MaxUnavailable: rapid.SampledFrom([]fleet.Portion{"1", "3", "20%", "50%"}).Draw(t, "max"),
		Gates:          []fleet.Gate{fleet.GateBooted, fleet.GateUnits, "script:check"},
		Soak:           rapid.SampledFrom([]time.Duration{0, 5 * time.Minute}).Draw(t, "soak"),
	}
	p.Method = rapid.SampledFrom(append(fleet.BootMethods(), "")).Draw(t, "method")
	if rapid.Bool().Draw(t, "hooks") {
		p.Drain, p.Undrain, p.DrainFor = "drain", "undrain", 20*time.Minute
	}
	return p
}

// TestAnySchedule: whatever nodes, operators and the server do, the rollout ends. A version with a flaw was only the
// target of canaries, and the group has the previous version. With a sound version the operator's wish is fulfilled.
func TestAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]flaw{sound, sound, neverBoots, brokenUnit, badScript, crashes}).Draw(t, "flaw")
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 9).Draw(t, "nodes"), aPlan(t), f)
		w.lossy, w.deaf = rapid.Bool().Draw(t, "lossy"), rapid.Bool().Draw(t, "deaf")
		aborted := false
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			aborted = disturb(t, w) || aborted
			r, _ := w.step(time.Duration(rapid.IntRange(1, 60).Draw(t, "wait")) * time.Second)
			canariesOnly(t, f, r)
		}
		w.lossy, w.closed = false, false
		r := w.settle(t)
		canariesOnly(t, f, r)
		switch {
		case r.State == fleet.RolloutDone && (f != sound || aborted || w.image != newImage):
			t.Fatalf("done: flaw %q, aborted %v, image %s\n%s", f, aborted, w.image, dump(r))
		case r.State == fleet.RolloutRolledBack && w.image != oldImage:
			t.Fatalf("returned, and the group's image is %s", w.image)
		}
		for _, n := range r.Nodes {
			if r.State == fleet.RolloutRolledBack && n.Target != oldImage && n.Phase != fleet.PhaseLeft {
				t.Fatalf("returned, and %s is to boot %s", n.Node, n.Target)
			}
		}
		for boot, asked := range w.rebuts {
			if asked > 1 {
				t.Fatalf("boot %s was ended %d times", boot, asked)
			}
		}
	})
}

// disturb causes a random disturbance. It reports whether an operator aborted.
func disturb(t *rapid.T, w *world) (aborted bool) {
	m := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
	switch what := rapid.IntRange(0, 60).Draw(t, "what"); what {
	case 0: // an operator switches the node off, and may switch it on again
		m.on, m.off = false, time.Time{}
		if rapid.Bool().Draw(t, "comes back") {
			m.off = w.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "minutes")) * time.Minute)
		}
	case 1: // reset
		if m.on {
			w.begin(m)
		}
	case 2, 3:
		w.crash(time.Duration(rapid.IntRange(0, 180).Draw(t, "minutes away")) * time.Minute)
	case 4, 5, 6, 7:
		r := w.rollout()
		switch what { // an impossible action changes nothing
		case 4:
			r, _ = Pause(r, "test")
		case 5, 6:
			r, _ = Resume(r)
		case 7:
			var err error
			r, err = Abort(r, "test")
			aborted = err == nil
		}
		w.keep(r)
	case 8:
		w.closed = !w.closed
	}
	return aborted
}

// canariesOnly checks that a version with a flaw is the target of canaries only.
func canariesOnly(t *rapid.T, f flaw, r fleet.Rollout) {
	if f == sound {
		return
	}
	for _, n := range r.Nodes {
		if n.Target == newImage && (n.Wave != 0 || r.Wave != 0) {
			t.Fatalf("a version that %s is the target of %s\n%s", f, n.Node, dump(r))
		}
	}
}

// settle steps until the rollout has ended, or halted because there is no node to try the version on.
func (w *world) settle(t *rapid.T) fleet.Rollout {
	for range 4000 {
		r := w.rollout()
		if !r.State.Live() {
			return r
		}
		if r.State == fleet.RolloutHalted && !strings.Contains(r.Reason, "nothing has gone on") {
			t.Fatalf("halted\n%s", dump(r))
		}
		if r.State == fleet.RolloutHalted {
			return r
		}
		if r.State == fleet.RolloutPaused {
			r, _ = Resume(r)
			w.keep(r)
		}
		w.step(30 * time.Second)
	}
	t.Fatalf("it does not end\n%s", dump(w.rollout()))
	return fleet.Rollout{}
}

// TestCrashesChangeNothing: if the server dies between any two steps, the rollout still gets to the same result.
func TestCrashesChangeNothing(t *testing.T) {
	for f, want := range map[flaw]fleet.RolloutState{sound: fleet.RolloutDone, neverBoots: fleet.RolloutRolledBack,
		brokenUnit: fleet.RolloutRolledBack, badScript: fleet.RolloutRolledBack, crashes: fleet.RolloutRolledBack} {
		plan := fleet.RolloutPlan{Canary: "2", Wave: "30%", MaxUnavailable: "30%", Drain: "drain", Undrain: "undrain",
			Gates: []fleet.Gate{fleet.GateBooted, fleet.GateUnits, "script:check"}}
		run := func(crashAt int) int {
			w := newWorld(t, 1, 8, plan, f)
			for i := range 3000 {
				if i == crashAt {
					w.crash(2 * time.Hour)
				}
				r, _ := w.step(15 * time.Second)
				if r.State.Live() {
					continue
				}
				stuck := f == neverBoots // such a node cannot be told to reboot
				for _, m := range w.nodes {
					if !stuck && w.up(m) && m.version != w.target(m.name) {
						t.Errorf("crash at %d: %s runs %s", crashAt, m.name, m.version)
					}
				}
				if r.State != want {
					t.Fatalf("%q, crash at step %d: ends as\n%s", f, crashAt, dump(r))
				}
				return i
			}
			t.Fatalf("%q, crash at step %d: does not end\n%s", f, crashAt, dump(w.rollout()))
			return 0
		}
		last := run(-1)
		for at := range last {
			run(at)
		}
	}
}

// TestHalt: a rollout with on-fail halt waits for an operator, who may try again or roll back.
func TestHalt(t *testing.T) {
	w := newWorld(t, 1, 3, fleet.RolloutPlan{OnFail: fleet.FailHalt}, brokenUnit)
	for range 100 {
		w.step(15 * time.Second)
	}
	r := w.rollout()
	if r.State != fleet.RolloutHalted || !strings.Contains(r.Reason, "new.service") ||
		strings.Contains(r.Reason, "old.service") {
		t.Fatal(dump(r))
	}
	w.flaw = sound // the unit was fixed on the node
	r, err := Resume(r)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(r)
	for range 300 {
		w.step(15 * time.Second)
	}
	if r = w.rollout(); r.State != fleet.RolloutDone || w.image != newImage || w.rebuts["pc1-2"] != 0 {
		t.Errorf("%s\n%v", dump(r), w.rebuts)
	}
	for _, verb := range []func() error{
		func() error { _, err := Abort(r, ""); return err },
		func() error { _, err := Resume(r); return err },
		func() error { _, err := Pause(r, ""); return err },
	} {
		if verb() == nil {
			t.Error("a rollout that is done takes orders")
		}
	}
}

// TestMembers: a node that joins the group is taken last. A node that leaves it is left alone.
func TestMembers(t *testing.T) {
	w := newWorld(t, 1, 1, fleet.RolloutPlan{}, sound)
	w.step(time.Second)
	w.nodes = append(
		w.nodes,
		&machine{name: "late", on: true, boot: 1, version: digest(oldImage), asks: start, ready: start},
		&machine{name: "short", on: true, boot: 1, version: digest(oldImage), asks: start, ready: start},
	)
	r, _ := Step(w.rollout(), w.observe(), w.now)
	if len(r.Nodes) != 3 || r.Nodes[1].Node != "late" || r.Nodes[1].Wave != 1 || r.Waves != 2 {
		t.Fatal(dump(r))
	}
	w.keep(r)
	w.nodes = w.nodes[:2]
	for range 100 {
		r, _ = Step(w.rollout(), w.observe(), w.now)
		w.keep(r)
		_, a := Step(r, w.observe(), w.now)
		w.act(a)
		w.now = w.now.Add(15 * time.Second)
		w.live()
	}
	if r.State != fleet.RolloutDone || r.Nodes[2].Phase != fleet.PhaseLeft || r.Nodes[1].Phase != fleet.PhasePassed {
		t.Error(dump(r))
	}
}

// TestWaves: the canaries are up and of different kinds. The other nodes follow in natural order.
func TestWaves(t *testing.T) {
	var c []Candidate
	for i, class := range strings.Split("off,dell,dell,hp,hp,dell,dell,dell", ",") {
		c = append(
			c,
			Candidate{
				Name:  "pc" + string(rune('1'+i)),
				Up:    class != "off",
				Class: class,
				Seen:  start.Add(-90 * time.Minute),
			},
		)
	}
	waves := func(p fleet.RolloutPlan) string {
		r, err := Begin(fleet.Rollout{From: oldImage, To: newImage, Plan: p.WithDefaults()}, c, start)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, n := range r.Nodes {
			for len(out) <= n.Wave {
				out = append(out, "")
			}
			out[n.Wave] += n.Node
		}
		if len(out) != r.Waves {
			t.Errorf("%d waves, and %d are told", len(out), r.Waves)
		}
		return strings.Join(out, " ")
	}
	for want, p := range map[string]fleet.RolloutPlan{
		"pc2pc4 pc1pc3 pc5pc6 pc7pc8":                       {Canary: "2", Wave: "25%"},
		"pc2 pc1pc3pc4pc5pc6pc7pc8":                         {Wave: "100%"},
		"pc2 pc1 pc3 pc4 pc5 pc6 pc7 pc8":                   {},
		"pc7 pc1pc2pc3 pc4pc5pc6 pc8":                       {CanaryNodes: []string{"pc7"}, Wave: "3"},
		"canary pc9 is none of the nodes that would follow": {CanaryNodes: []string{"pc9"}},
		"pc1pc2pc3pc4pc5pc6pc7pc8":                          {Canary: "99"},
	} {
		if got := waves(p); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
	if _, err := Begin(fleet.Rollout{Plan: fleet.RolloutPlan{}.WithDefaults()}, nil, start); err == nil {
		t.Error("a rollout of no node begins")
	}
	if l := Limit(fleet.RolloutPlan{Gates: []fleet.Gate{"booted:2.5"}}, 10*time.Minute); l != 25*time.Minute {
		t.Errorf("limit %s", l)
	}
}

// TestNodesThatDoNot: a node that cannot reboot, or is off, is skipped, and the other nodes get the new version. A
// skipped node that comes back late is judged then.
func TestNodesThatDoNot(t *testing.T) {
	w := newWorld(t, 1, 4, fleet.RolloutPlan{Canary: "1", Wave: "100%", MaxUnavailable: "4", Soak: time.Hour}, sound)
	w.refuses, w.nodes[2].on = "pc1", false
	phases := func() (out []string) {
		for _, m := range w.nodes {
			for _, n := range w.rollout().Nodes {
				if n.Node == m.name {
					out = append(out, string(n.Phase))
				}
			}
		}
		return out
	}
	for range 100 {
		w.step(30 * time.Second)
	}
	if got := strings.Join(phases(), " "); got != "away passed waiting waiting" || w.rollout().Wave != 0 {
		t.Fatalf("%s\n%s", got, dump(w.rollout()))
	}
	for range 60 {
		w.step(30 * time.Second)
	}
	if got := strings.Join(phases(), " "); got != "away passed away passed" {
		t.Fatalf("%s\n%s", got, dump(w.rollout()))
	}
	w.nodes[2].off = w.now
	for range 10 {
		w.step(30 * time.Second)
	}
	if got := strings.Join(phases(), " "); got != "away passed passed passed" {
		t.Fatalf("%s\n%s", got, dump(w.rollout()))
	}
	for range 200 {
		w.step(30 * time.Second)
	}
	if r := w.rollout(); r.State != fleet.RolloutDone {
		t.Error(dump(r))
	}
}

// TestSpeedGate: a version that is known to be slower fails only if the plan has the speed gate.
func TestSpeedGate(t *testing.T) {
	for _, tt := range []struct {
		gates  []fleet.Gate
		slower string
		want   fleet.RolloutPhase
	}{
		{[]fleet.Gate{fleet.GateBooted, fleet.GateSpeed}, "boots take 4s longer", fleet.PhaseFailed},
		{[]fleet.Gate{fleet.GateBooted, fleet.GateSpeed}, "", fleet.PhasePassed},
		{[]fleet.Gate{fleet.GateBooted}, "boots take 4s longer", fleet.PhasePassed},
	} {
		s := step{r: &fleet.Rollout{Plan: fleet.RolloutPlan{Gates: tt.gates}}, o: Observed{Slower: tt.slower}}
		got, why := s.verdict(&fleet.RolloutNode{}, Node{Up: true})
		if got != tt.want || got == fleet.PhaseFailed && why != tt.slower {
			t.Errorf("%v, %q: %s, %q", tt.gates, tt.slower, got, why)
		}
	}
}
