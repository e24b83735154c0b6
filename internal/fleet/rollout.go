package fleet

import "time"

// Rollout brings the nodes of a group from one version to another, in waves: first a few nodes, the canary, and others
// when these have passed the gate. While it is live each of its nodes has a target, which its next boot gets instead of
// the group's image. When it is done the group's image is To; after a rollback it is still From.
type Rollout struct {
	ID     string       `json:"id"` // its group and a number: "lab-3"
	Group  string       `json:"group"`
	From   Ref          `json:"from"`  // what the group desired when it began: "name@sha256:..."
	To     Ref          `json:"to"`    // "name@sha256:..."
	Asked  Ref          `json:"asked"` // To as it was asked for: "lab:next"
	Plan   RolloutPlan  `json:"plan"`
	State  RolloutState `json:"state"`
	Reason string       `json:"reason,omitempty"` // why it halted or returned, or what it waits for
	Wave   int          `json:"wave"`             // the wave under way; 0 is the canary
	Waves  int          `json:"waves"`            // how many there are
	// how long a server has stepped it; it stands still while no server runs
	Clock   time.Duration `json:"clock"`
	Moved   time.Duration `json:"moved"`            // Clock when something last went on
	Passed  time.Duration `json:"passed"`           // Clock when all nodes of the wave had passed; 0: they have not
	Stepped time.Time     `json:"stepped"`          // when it was looked after last
	Nodes   []RolloutNode `json:"nodes"`            // in the order in which they are taken
	Usual   time.Duration `json:"usual"`            // how long a boot takes here as a rule; 0: not known
	Broken  []string      `json:"broken,omitempty"` // units that had failed on some node of the group when it began
	// the operator's token, or that it was begun on the server's machine
	Who     string    `json:"who"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
}

// RolloutState is where a rollout is as a whole.
type RolloutState string

// The states of a rollout.
const (
	RolloutRunning     RolloutState = "running"
	RolloutPaused      RolloutState = "paused"    // by an operator: no node more is taken
	RolloutHalted      RolloutState = "halted"    // by itself: an operator resumes or aborts it
	RolloutRollingBack RolloutState = "returning" // its nodes go back to the version before
	RolloutDone        RolloutState = "done"      // the group's image is the new version
	RolloutRolledBack  RolloutState = "returned"  // the group's image is the version before
)

// Text is the state for people.
func (s RolloutState) Text() string {
	switch s {
	case RolloutRollingBack:
		return "rolling back"
	case RolloutRolledBack:
		return "rolled back"
	}
	return string(s)
}

// Live reports whether a rollout in this state decides what nodes boot.
func (s RolloutState) Live() bool { return s != RolloutDone && s != RolloutRolledBack }

// RolloutNode is the progress of a rollout with one node.
type RolloutNode struct {
	Node     string        `json:"node"`
	Wave     int           `json:"wave"`
	Target   Ref           `json:"target"` // what its next boot gets
	Phase    RolloutPhase  `json:"phase"`
	At       time.Duration `json:"at"`               // the rollout's Clock when the phase began
	Boot     BootID        `json:"boot,omitempty"`   // the boot that is to end, and then the one that is judged
	Tries    int           `json:"tries,omitempty"`  // boots that it was asked to end, or that did not last
	Limit    time.Duration `json:"limit,omitempty"`  // how long its boot may take
	Before   []string      `json:"before,omitempty"` // units that had failed before it was taken
	Drained  bool          `json:"drained,omitempty"`
	Silent   bool          `json:"silent,omitempty"` // it is not up
	SilentAt time.Duration `json:"silent_at,omitempty"`
	Reason   string        `json:"reason,omitempty"` // why it failed, was passed over or was lost
}

// RolloutPhase is the phase of one node in a rollout.
type RolloutPhase string

// The phases of a node, in their order.
const (
	PhaseWaiting   RolloutPhase = "waiting"   // for its turn
	PhaseDraining  RolloutPhase = "draining"  // the drain hook has not said yet that it is free
	PhaseRebooting RolloutPhase = "rebooting" // asked to reboot; no new boot was seen
	PhaseBooting   RolloutPhase = "booting"   // its target
	PhaseChecking  RolloutPhase = "checking"  // it has booted, and the rest of the gate is looked at
	PhasePassed    RolloutPhase = "passed"
	PhaseFailed    RolloutPhase = "failed"   // at the gate
	PhaseAway      RolloutPhase = "away"     // passed over: it was not up, could not be drained, or did not reboot
	PhaseReturned  RolloutPhase = "returned" // it has the version before, or its next boot gets it
	PhaseLost      RolloutPhase = "lost"     // its next boot gets the version before, and it does not come to that
	PhaseLeft      RolloutPhase = "left"     // not of the group any more, or with a version of its own
)

// RolloutPlan is how a rollout goes about it.
type RolloutPlan struct {
	Canary      Portion  `json:"canary,omitempty"`       // how many nodes are the first wave
	CanaryNodes []string `json:"canary_nodes,omitempty"` // or which
	Wave        Portion  `json:"wave,omitempty"`         // how many are each later one; "": all others

	// MaxUnavailable is how many nodes may be down at a time, those that are down for reasons of their own included.
	MaxUnavailable Portion `json:"max_unavailable"`

	Gates    []Gate        `json:"gates"`
	Soak     time.Duration `json:"soak,omitempty"` // from a wave that has passed to the next
	OnFail   FailPolicy    `json:"on_fail"`
	Windows  []Window      `json:"windows,omitempty"` // when nodes may be taken; none: always
	Zone     string        `json:"zone,omitempty"`    // time zone of the windows: "Europe/Berlin"; "": the server's
	Drain    string        `json:"drain,omitempty"`   // hook that frees a node of work; "": none
	DrainFor time.Duration `json:"drain_for"`         // how long that may take
	Undrain  string        `json:"undrain,omitempty"` // hook that gives it work again
	Reboot   string        `json:"reboot,omitempty"`  // hook that reboots it; "": its agent does
	Method   BootMethod    `json:"method,omitempty"`  // by which its agent does; "": reboot
}

// FailPolicy says what a rollout does when a node fails at the gate.
type FailPolicy string

// The fail policies.
const (
	FailReturn FailPolicy = "return" // go back to the version before
	FailHalt   FailPolicy = "halt"   // take no node more, and wait for an operator
)

// Defaults of a plan.
const (
	DefaultCanary         Portion = "1"
	DefaultWave           Portion = "10%"
	DefaultMaxUnavailable Portion = "20%"
	DefaultDrainFor               = time.Hour
)

// WithDefaults fills in the defaults of a plan.
func (p RolloutPlan) WithDefaults() RolloutPlan {
	if p.Canary == "" && len(p.CanaryNodes) == 0 {
		p.Canary = DefaultCanary
	}
	if p.Wave == "" {
		p.Wave = DefaultWave
	}
	if p.MaxUnavailable == "" {
		p.MaxUnavailable = DefaultMaxUnavailable
	}
	if len(p.Gates) == 0 {
		p.Gates = []Gate{GateBooted, GateUnits}
	}
	if p.OnFail == "" {
		p.OnFail = FailReturn
	}
	if p.DrainFor == 0 {
		p.DrainFor = DefaultDrainFor
	}
	return p
}

// Versions are the versions that a rollout leaves and goes to, as far as it names them by their digests.
func (r Rollout) Versions() (out []Digest) {
	for _, ref := range []Ref{r.From, r.To} {
		if _, _, d, err := ref.Split(); err == nil && d != "" {
			out = append(out, d)
		}
	}
	return out
}
