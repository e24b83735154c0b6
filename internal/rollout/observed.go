package rollout

import "pando/internal/fleet"

// Observed is the state of a rollout's nodes at one moment.
type Observed struct {
	Nodes   map[string]Node // the adopted nodes of the group that have no version of their own
	Results map[Hook]Result // of hooks that have ended
	Open    bool            // nodes may be taken now: no window is declared, or one is open
	// why boots of the new version count as slower than those of the previous one; "": not known to be
	Slower string
}

// Node is the observed state of one node.
type Node struct {
	Boot    fleet.BootID // the latest one; "": it has not booted yet
	Version fleet.Digest // that this boot was given; "": it has not got so far
	Up      bool         // it has booted, and reported a short time ago
	Staged  fleet.Digest // the version that it has fetched ahead
	Running fleet.Digest // the version that it proved to run; "": it is not up
	Speaks  bool         // its agent reports, so it can be told to reboot
	Refused string       // why it did not reboot when it was told to
	Failure string       // why its boot fails
	Off     bool         // it switched itself off before it was up
	Told    bool         // it has reported its failed units
	Units   []string     // the failed units
}

// Use is what a hook is run for.
type Use string

// The uses of hooks.
const (
	Drain   Use = "drain"   // free the node of work; a failure is tried again
	Undrain Use = "undrain" // give it work again; a failure is tried again
	Restart Use = "reboot"  // reboot it; a failure is tried again
	Check   Use = "check"   // judge it; a failure is final
)

// Hook is one run of a hook, which has one result.
type Hook struct {
	Use  Use
	Name string
	Node string
	Boot fleet.BootID // the node's boot when the hook was requested
}

// Result is how a hook ended.
type Result struct {
	OK   bool
	Says string // the last line that it printed, or why it did not run
}

// Actions are what the caller has to do now. Repeating an action does no harm.
type Actions struct {
	Reboot []Ask
	Stage  []Ask // nodes that fetch the new version ahead; their boots go on
	Run    []Hook
	Image  fleet.Ref // the group's image from now on; "": unchanged. Record it together with the rollout.
	Notes  []Note
}

// Ask tells a node to end a boot. It does not apply to another boot of the node.
type Ask struct {
	Node   string
	Boot   fleet.BootID
	Method fleet.BootMethod // how the node gets to its next boot; auto: the caller chooses
}

// Note is an event for people. Bad marks what they should look at.
type Note struct {
	Node    string // "": the rollout as a whole
	Phase   fleet.RolloutPhase
	Message string
	Bad     bool
}
