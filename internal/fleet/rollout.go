package fleet

import "time"

// Rollout brings the nodes of a group from one version to another, in waves: first a few nodes (the canary), and the
// others when these have passed the gate. While it is live, the next boot of each of its nodes gets the node's target.
// When it is done, the group's image is To; after a rollback it is still From.
type Rollout struct {
	ID     string       `json:"id"` // its group and a number: "lab-3"
	Group  string       `json:"group"`
	From   Ref          `json:"from"`  // the group's image when the rollout began: "name@sha256:..."
	To     Ref          `json:"to"`    // "name@sha256:..."
	Asked  Ref          `json:"asked"` // To as the operator gave it: "lab:next"
	Plan   RolloutPlan  `json:"plan"`
	State  RolloutState `json:"state"`
	Reason string       `json:"reason,omitempty"` // why it halted or rolled back, or what it waits for
	Wave   int          `json:"wave"`             // the wave under way; 0 is the canary
	Waves  int          `json:"waves"`            // number of waves
	// how long servers have run it; it does not advance while no server runs
	Clock   time.Duration `json:"clock"`
	Moved   time.Duration `json:"moved"`            // Clock at the last progress
	Passed  time.Duration `json:"passed"`           // Clock when all nodes of the wave had passed; 0: they have not
	Stepped time.Time     `json:"stepped"`          // when a server last advanced it
	Nodes   []RolloutNode `json:"nodes"`            // in the order in which they are updated
	Usual   time.Duration `json:"usual"`            // usual duration of a boot here; 0: unknown
	Broken  []string      `json:"broken,omitempty"` // units that had failed on some node of the group when it began
	// the operator's token, or that it was started on the server's machine
	Who     string    `json:"who"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
}

// RolloutState is where a rollout is as a whole.
type RolloutState string

// The states of a rollout.
const (
	RolloutRunning     RolloutState = "running"
	RolloutPaused      RolloutState = "paused"    // by an operator: no further node begins
	RolloutHalted      RolloutState = "halted"    // by the rollout itself: an operator resumes or aborts it
	RolloutRollingBack RolloutState = "returning" // its nodes go back to the previous version
	RolloutDone        RolloutState = "done"      // the group's image is the new version
	RolloutRolledBack  RolloutState = "returned"  // the group's image is the previous version
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

// Live reports whether a rollout in this state decides what its nodes boot.
func (s RolloutState) Live() bool { return s != RolloutDone && s != RolloutRolledBack }

// RolloutNode is the progress of a rollout with one node.
type RolloutNode struct {
	Node     string        `json:"node"`
	Wave     int           `json:"wave"`
	Target   Ref           `json:"target"` // what its next boot gets
	Phase    RolloutPhase  `json:"phase"`
	At       time.Duration `json:"at"`               // the rollout's Clock when the phase began
	Boot     BootID        `json:"boot,omitempty"`   // the boot that should end; later the boot that is checked
	Tries    int           `json:"tries,omitempty"`  // boots that were told to end, or that failed
	Limit    time.Duration `json:"limit,omitempty"`  // how long its boot may take
	Before   []string      `json:"before,omitempty"` // units that had failed before the node was updated
	Drained  bool          `json:"drained,omitempty"`
	Silent   bool          `json:"silent,omitempty"` // the node is not up
	SilentAt time.Duration `json:"silent_at,omitempty"`
	Reason   string        `json:"reason,omitempty"` // why it failed, was skipped or became unreachable
}

// RolloutPhase is the phase of one node in a rollout.
type RolloutPhase string

// The phases of a node, in their order.
const (
	PhaseWaiting   RolloutPhase = "waiting"   // no reboot was requested yet
	PhaseDraining  RolloutPhase = "draining"  // the drain hook has not yet reported the node free
	PhaseRebooting RolloutPhase = "rebooting" // a reboot was requested; no new boot was seen
	PhaseBooting   RolloutPhase = "booting"   // it boots its target
	PhaseChecking  RolloutPhase = "checking"  // it has booted; the other gates are checked
	PhasePassed    RolloutPhase = "passed"
	PhaseFailed    RolloutPhase = "failed"   // at the gate
	PhaseAway      RolloutPhase = "away"     // skipped: it was not up, could not be drained, or did not reboot
	PhaseReturned  RolloutPhase = "returned" // it runs the previous version, or its next boot gets it
	PhaseLost      RolloutPhase = "lost"     // unreachable: should boot the previous version, and does not boot
	PhaseLeft      RolloutPhase = "left"     // it left the group, or has an image of its own
)

// RolloutPlan says how a rollout proceeds.
type RolloutPlan struct {
	Canary      Portion  `json:"canary,omitempty"`       // size of the first wave
	CanaryNodes []string `json:"canary_nodes,omitempty"` // the nodes of the first wave, instead of a size
	Wave        Portion  `json:"wave,omitempty"`         // size of each later wave; "": all others

	// MaxUnavailable is how many nodes may be down at a time, including nodes that are down for other reasons.
	MaxUnavailable Portion `json:"max_unavailable"`

	Gates    []Gate        `json:"gates"`
	Soak     time.Duration `json:"soak,omitempty"` // waiting time between a wave that has passed and the next
	OnFail   FailPolicy    `json:"on_fail"`
	Windows  []Window      `json:"windows,omitempty"` // when nodes may begin; none: always
	Zone     string        `json:"zone,omitempty"`    // time zone of the windows: "Europe/Berlin"; "": the server's
	Drain    string        `json:"drain,omitempty"`   // hook that frees a node of work; "": none
	DrainFor time.Duration `json:"drain_for"`         // how long the drain hook may take
	Undrain  string        `json:"undrain,omitempty"` // hook that gives the node work again
	Reboot   string        `json:"reboot,omitempty"`  // hook that reboots the node; "": its agent does
	Method   BootMethod    `json:"method,omitempty"`  // boot method that the agent uses; "": reboot
}

// FailPolicy says what a rollout does when a node fails at the gate.
type FailPolicy string

// The fail policies.
const (
	FailReturn FailPolicy = "return" // go back to the previous version
	FailHalt   FailPolicy = "halt"   // begin no further node, and wait for an operator
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

// Versions returns the versions that a rollout leaves and goes to, as far as it names them by digest.
func (r Rollout) Versions() (out []Digest) {
	for _, ref := range []Ref{r.From, r.To} {
		if _, _, d, err := ref.Split(); err == nil && d != "" {
			out = append(out, d)
		}
	}
	return out
}
