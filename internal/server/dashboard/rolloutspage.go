package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// rolloutsView is the content of the page with all recorded rollouts.
type rolloutsView struct {
	Live, Ended []rolloutRow
	Groups      []api.Group
	Images      []api.Image
	Methods     []methodChoice
}

// methodChoice is a boot method, and what it means for nodes.
type methodChoice struct {
	Method fleet.BootMethod
	Means  string
}

// methodChoices returns all boot methods, the default first.
func methodChoices() []methodChoice {
	return []methodChoice{
		{fleet.MethodReboot, "nodes restart through their firmware"},
		{fleet.MethodAuto, "each node takes the fastest way that works: soft-reboot, else kexec, else reboot"},
		{fleet.MethodKexec, "nodes start the new kernel themselves, without firmware; some devices then fail"},
		{
			fleet.MethodSoftReboot,
			"nodes keep their kernel and go to the new root: where the kernel is the same, with systemd 254 and " +
				"without kept state",
		},
	}
}

// rolloutRow is one rollout in a list.
type rolloutRow struct {
	api.Rollout
	Size   int // nodes
	Passed int
	Parts  []phasePart
}

// phasePart counts the nodes of a rollout or wave in phases of one kind.
type phasePart struct {
	Mood  mood
	Text  string
	Nodes int
	Bar   bar
}

// phaseKinds groups the phases by what they mean to people.
var phaseKinds = []struct {
	mood   mood
	text   string
	phases []fleet.RolloutPhase
}{
	{booted, "passed", []fleet.RolloutPhase{fleet.PhasePassed}},
	{
		booting,
		"under way",
		[]fleet.RolloutPhase{fleet.PhaseDraining, fleet.PhaseRebooting, fleet.PhaseBooting, fleet.PhaseChecking},
	},
	{failed, "failed", []fleet.RolloutPhase{fleet.PhaseFailed, fleet.PhaseLost}},
	{silent, "skipped", []fleet.RolloutPhase{fleet.PhaseAway, fleet.PhaseLeft}},
	{down, "rolled back", []fleet.RolloutPhase{fleet.PhaseReturned}},
	{never, "waiting", []fleet.RolloutPhase{fleet.PhaseWaiting}},
}

// phaseParts divides a bar by kinds of phases.
func phaseParts(phases map[fleet.RolloutPhase]int) (parts []phasePart, nodes int) {
	for _, n := range phases {
		nodes += n
	}
	at := 0
	for _, k := range phaseKinds {
		n := 0
		for _, p := range k.phases {
			n += phases[p]
		}
		if n == 0 {
			continue
		}
		from, to := at*1000/nodes, (at+n)*1000/nodes
		parts = append(parts, phasePart{k.mood, k.text, n, bar{from, to - from}})
		at += n
	}
	return parts, nodes
}

func newRolloutRow(r api.Rollout) rolloutRow {
	row := rolloutRow{Rollout: r}
	row.Parts, row.Size = phaseParts(r.Phases)
	row.Passed = r.Phases[fleet.PhasePassed]
	return row
}

func (d *Dashboard) rolloutsPage(r *http.Request) (view, error) {
	all, err := d.API.Rollouts(r.Context(), "")
	if err != nil {
		return view{}, err
	}
	var v rolloutsView
	for _, x := range all {
		if x.State.Live() {
			v.Live = append(v.Live, newRolloutRow(x))
			continue
		}
		v.Ended = append(v.Ended, newRolloutRow(x))
	}
	if v.Groups, err = d.API.Groups(r.Context()); err != nil {
		return view{}, err
	}
	if v.Images, err = d.API.Images(r.Context()); err != nil {
		return view{}, err
	}
	v.Methods = methodChoices()
	return view{template: "rollouts.html", title: "Rollouts", live: "tick=1", data: v}, nil
}

// rolloutView is the content of a rollout's page.
type rolloutView struct {
	rolloutRow
	Mood     mood
	WaveRows []waveRow
	Trouble  []fleet.RolloutNode // nodes that failed, were skipped, or became unreachable
	Busy     []fleet.RolloutNode // nodes in progress
	Missing  int                 // number of both that are not listed
	Can      map[string]bool     // which of pause, resume and abort are possible
}

// waveRow is one wave.
type waveRow struct {
	Name   string
	Under  bool // the wave in progress
	Nodes  int
	Parts  []phasePart
	Passed int
}

// rolloutNodes is how many nodes of each kind a rollout's page lists.
const rolloutNodes = 60

func (d *Dashboard) rolloutPage(r *http.Request) (view, error) {
	x, err := d.API.Rollout(r.Context(), r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	v := rolloutView{rolloutRow: newRolloutRow(x), Mood: rolloutMood(x.State), WaveRows: waveRows(x)}
	for _, n := range x.Nodes {
		switch rolloutKind(n.Phase) {
		case failed, silent:
			v.Trouble = append(v.Trouble, n)
		case booting:
			v.Busy = append(v.Busy, n)
		}
	}
	v.Trouble, v.Busy = v.few(v.Trouble), v.few(v.Busy)
	live := x.State.Live()
	v.Can = map[string]bool{
		"pause":  x.State == fleet.RolloutRunning,
		"resume": x.State == fleet.RolloutPaused || x.State == fleet.RolloutHalted,
		"abort":  live && x.State != fleet.RolloutRollingBack,
	}
	follow := ""
	if live || d.Now().Sub(x.Ended) < time.Hour {
		follow = "tick=1"
	}
	return view{template: "rollout.html", title: "Rollout " + x.ID, live: follow, data: v}, nil
}

// few shortens a list, and adds what it leaves out to Missing.
func (v *rolloutView) few(nodes []fleet.RolloutNode) []fleet.RolloutNode {
	n := min(len(nodes), rolloutNodes)
	v.Missing += len(nodes) - n
	return nodes[:n]
}

func rolloutKind(p fleet.RolloutPhase) mood {
	for _, k := range phaseKinds {
		if slices.Contains(k.phases, p) {
			return k.mood
		}
	}
	return never
}

func rolloutMood(s fleet.RolloutState) mood {
	switch s {
	case fleet.RolloutDone:
		return booted
	case fleet.RolloutHalted, fleet.RolloutRollingBack:
		return failed
	case fleet.RolloutRolledBack:
		return down
	}
	return booting
}

// waveRows returns the waves of a rollout, the canary first.
func waveRows(x api.Rollout) []waveRow {
	by := map[int]map[fleet.RolloutPhase]int{}
	last := 0
	for _, n := range x.Nodes {
		if by[n.Wave] == nil {
			by[n.Wave] = map[fleet.RolloutPhase]int{}
		}
		by[n.Wave][n.Phase]++
		last = max(last, n.Wave)
	}
	var out []waveRow
	for w := 0; w <= last; w++ {
		if by[w] == nil {
			continue
		}
		row := waveRow{Name: "canary", Under: x.State.Live() && w == x.Wave, Passed: by[w][fleet.PhasePassed]}
		if w > 0 {
			row.Name = "wave " + strconv.Itoa(w)
		}
		row.Parts, row.Nodes = phaseParts(by[w])
		out = append(out, row)
	}
	return out
}

// startRollout starts a rollout with the group, image and method of the form, and defaults for the rest.
func (d *Dashboard) startRollout(r *http.Request) (string, error) {
	x, err := d.API.StartRollout(
		r.Context(),
		api.RolloutStart{Group: r.PostFormValue("group"), Image: fleet.Ref(r.PostFormValue("image")),
			Plan: fleet.RolloutPlan{Method: fleet.BootMethod(r.PostFormValue("method"))}},
	)
	return rolloutPath(x.ID), err
}

// changeRollout pauses, resumes or aborts a rollout.
func (d *Dashboard) changeRollout(r *http.Request) (string, error) {
	id := r.PathValue("id")
	verbs := map[string]func() (api.Rollout, error){
		"pause":  func() (api.Rollout, error) { return d.API.PauseRollout(r.Context(), id) },
		"resume": func() (api.Rollout, error) { return d.API.ResumeRollout(r.Context(), id) },
		"abort":  func() (api.Rollout, error) { return d.API.AbortRollout(r.Context(), id) },
	}
	do, ok := verbs[r.PathValue("verb")]
	if !ok {
		return "", api.NewError(
			api.NotFound,
			"A rollout cannot be told to "+r.PathValue("verb")+".",
			"Use pause, resume or abort.",
		)
	}
	_, err := do()
	return rolloutPath(id), err
}

func rolloutPath(id string) string { return "/rollouts/" + url.PathEscape(id) }
