package rollout

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pando/internal/fleet"
)

var (
	oldImage = fleet.Ref("lab@sha256:" + strings.Repeat("1", 64))
	newImage = fleet.Ref("lab@sha256:" + strings.Repeat("2", 64))
	start    = time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
)

// flaw is what is wrong with the new version.
type flaw string

const (
	sound      flaw = ""
	neverBoots flaw = "never boots"
	brokenUnit flaw = "a unit fails"
	badScript  flaw = "the script says no"
	crashes    flaw = "boots again and again"
)

// machine is a node of a world.
type machine struct {
	name    string
	on      bool
	boot    int
	version fleet.Digest // of this boot, "" before its request
	asks    time.Time    // when it requests what to boot
	ready   time.Time    // when it has booted; zero: never
	ends    time.Time    // when it goes down and boots again; zero: never
	off     time.Time    // when it is switched on again; zero: it stays off
	silent  time.Duration
	staged  fleet.Digest
}

func (m *machine) id() fleet.BootID { return fleet.BootID(fmt.Sprintf("%s-%d", m.name, m.boot)) }

// fatal is the part of all kinds of tests that world uses.
type fatal interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world simulates the nodes, and the server that steps the rollout. It does not wait, and uses no real time.
type world struct {
	t       fatal
	rnd     *rand.Rand
	now     time.Time
	nodes   []*machine
	flaw    flaw
	kept    []byte // the rollout as recorded on the disk
	image   fleet.Ref
	results map[Hook]Result
	pending map[Hook]time.Time
	lossy   bool // actions get lost
	closed  bool // no window is open
	refuses string
	deaf    bool // machines do not reboot by soft-reboot or kexec
	rebuts  map[fleet.BootID]int
}

func newWorld(t fatal, seed uint64, n int, plan fleet.RolloutPlan, f flaw) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), now: start, flaw: f, image: oldImage,
		results: map[Hook]Result{}, pending: map[Hook]time.Time{}, rebuts: map[fleet.BootID]int{}}
	var c []Candidate
	for i := range n {
		m := &machine{
			name:    fmt.Sprintf("pc%d", i+1),
			on:      true,
			boot:    1,
			version: digest(oldImage),
			asks:    start.Add(-time.Hour),
			ready:   start.Add(-time.Hour),
		}
		w.nodes = append(w.nodes, m)
		c = append(
			c,
			Candidate{Name: m.name, Up: true, Seen: start, Usual: time.Minute, Broken: []string{"old.service"}},
		)
	}
	r, err := Begin(
		fleet.Rollout{ID: "lab-1", Group: "lab", From: oldImage, To: newImage, Plan: plan.WithDefaults()},
		c,
		start,
	)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(r)
	return w
}

func (w *world) keep(r fleet.Rollout) {
	b, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.kept = b
}

func (w *world) rollout() fleet.Rollout {
	var r fleet.Rollout
	if err := json.Unmarshal(w.kept, &r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// target returns what a node's next boot gets, as the server decides it.
func (w *world) target(name string) fleet.Digest {
	r := w.rollout()
	if !r.State.Live() {
		return digest(w.image)
	}
	for _, n := range r.Nodes {
		if n.Node == name && n.Phase != fleet.PhaseLeft {
			return digest(n.Target)
		}
	}
	return digest(w.image)
}

// live advances the machines to the present time.
func (w *world) live() {
	for _, m := range w.nodes {
		if !m.on {
			if !m.off.IsZero() && !w.now.Before(m.off) {
				w.begin(m)
			}
			continue
		}
		if !m.ends.IsZero() && !w.now.Before(m.ends) {
			w.begin(m)
		}
		if m.version == "" && !w.now.Before(m.asks) {
			m.version = w.target(m.name)
			m.ready = m.asks.Add(time.Minute)
			if m.version == digest(newImage) && w.flaw == neverBoots {
				m.ready = time.Time{}
			}
			if m.version == digest(newImage) && w.flaw == crashes {
				m.ends = m.ready.Add(20 * time.Second)
			}
		}
	}
}

func (w *world) begin(m *machine) {
	m.on, m.version, m.ends, m.off, m.ready = true, "", time.Time{}, time.Time{}, time.Time{}
	m.boot++
	m.staged = ""
	m.asks = w.now.Add(20 * time.Second)
}

func (w *world) up(m *machine) bool {
	return m.on && m.version != "" && !m.ready.IsZero() && !w.now.Before(m.ready)
}

func (w *world) observe() Observed {
	o := Observed{Nodes: map[string]Node{}, Results: w.results, Open: !w.closed}
	for _, m := range w.nodes {
		n := Node{Boot: m.id(), Version: m.version, Up: w.up(m), Staged: m.staged}
		if m.name == w.refuses {
			n.Refused = "inhibited"
		}
		if n.Up {
			n.Running, n.Speaks, n.Told, n.Units = m.version, true, true, []string{"old.service"}
			if m.version == digest(newImage) && w.flaw == brokenUnit {
				n.Units = append(n.Units, "new.service")
			}
		}
		o.Nodes[m.name] = n
	}
	return o
}

// act performs the actions of a step, or loses some of them.
func (w *world) act(a Actions) {
	for _, ask := range a.Reboot {
		m := w.find(ask.Node)
		if w.lossy && w.rnd.IntN(3) == 0 || m.id() != ask.Boot || !w.up(m) || !m.ends.IsZero() || m.name == w.refuses {
			continue
		}
		if w.deaf && ask.Method != fleet.MethodReboot {
			continue
		}
		m.ends = w.now.Add(time.Duration(5+w.rnd.IntN(30)) * time.Second)
		w.rebuts[ask.Boot]++
	}
	for _, h := range a.Run {
		if _, ok := w.pending[h]; !ok {
			w.pending[h] = w.now.Add(time.Duration(w.rnd.IntN(60)) * time.Second)
		}
	}
	for h, at := range w.pending {
		if !w.now.Before(at) {
			w.results[h] = Result{OK: h.Use != Check || w.flaw != badScript, Says: "exit status 1"}
			if w.lossy && h.Use != Check && w.rnd.IntN(4) == 0 {
				w.results[h] = Result{Says: "exit status 75"}
			}
			delete(w.pending, h)
		}
	}
	if a.Image != "" {
		w.image = a.Image
	}
}

func (w *world) find(name string) *machine {
	return w.nodes[slices.IndexFunc(w.nodes, func(m *machine) bool { return m.name == name })]
}

// step advances the clock, and steps once. Image and rollout are recorded together, as the server does.
func (w *world) step(d time.Duration) (fleet.Rollout, Actions) {
	before := w.rollout()
	w.now = w.now.Add(d)
	w.live()
	o := w.observe()
	r, a := Step(before, o, w.now)
	for _, m := range w.nodes {
		if m.silent += r.Clock - before.Clock; w.up(m) {
			m.silent = 0
		}
	}
	w.keep(r)
	if a.Image != "" {
		w.image = a.Image
	}
	w.checkRoom(before, r, o)
	w.act(a)
	return r, a
}

// crash makes the server die between two steps, and stay away for a while: its pending actions are lost, and booting
// machines wait for it.
func (w *world) crash(away time.Duration) {
	before := w.rollout()
	w.live()
	r, a := Step(before, w.observe(), w.now)
	w.keep(r)
	if a.Image != "" {
		w.image = a.Image
	}
	clear(w.results)
	clear(w.pending)
	for _, m := range w.nodes {
		for _, t := range []*time.Time{&m.asks, &m.ready, &m.ends, &m.off} {
			if t.After(w.now) {
				*t = t.Add(away)
			}
		}
	}
	w.now = w.now.Add(away)
}

// checkRoom checks, by its own count, that no more nodes are taken from their work than the plan allows.
func (w *world) checkRoom(before, after fleet.Rollout, o Observed) {
	took, total, down := "", 0, 0
	for i, n := range after.Nodes {
		m := w.find(n.Node)
		up := o.Nodes[n.Node].Up
		busy := underWay(n.Phase)
		if !up && !busy && m.silent >= goneAfter-longestTick { // its silence began somewhere within a step
			continue
		}
		total++
		if !up || busy || n.Drained {
			down++
		}
		was := before.Nodes[i].Phase
		free := was != fleet.PhaseFailed && !underWay(was) && !before.Nodes[i].Drained
		if free && up && busy && n.Phase != fleet.PhaseFailed {
			took = n.Node
		}
	}
	if most := after.Plan.MaxUnavailable.AtMost(total); took != "" && down > most {
		w.t.Fatalf("%s was taken: %d of %d are down, %d may be\n%s", took, down, total, most, dump(after))
	}
}

func dump(r fleet.Rollout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s wave %d/%d clock %s: %s\n", r.State, r.Wave, r.Waves, r.Clock, r.Reason)
	for _, n := range r.Nodes {
		fmt.Fprintf(
			&b,
			"  %s wave %d %s since %s silent %v tries %d -> %s %s\n",
			n.Node,
			n.Wave,
			n.Phase,
			n.At,
			n.Silent,
			n.Tries,
			digest(n.Target).Short(),
			n.Reason,
		)
	}
	return b.String()
}
