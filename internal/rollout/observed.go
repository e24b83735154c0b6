package rollout

import "pando/internal/fleet"

// Observed is what is seen of a rollout's nodes at one moment.
type Observed struct {
	Nodes   map[string]Node // the adopted nodes of the group that have no version of their own
	Results map[Hook]Result // of hooks that have ended
	Open    bool            // nodes may be taken now: no window is declared, or one is open
	// that boots of the new version take longer than those of the one before; "": not that is known
	Slower string
}

// Node is what is seen of one node.
type Node struct {
	Boot    fleet.BootID // the latest one; "": it has not booted yet
	Version fleet.Digest // that this boot was given; "": it has not come so far
	Up      bool         // it has booted, and was heard of a short time ago
	Staged  fleet.Digest // what it has fetched ahead
	Running fleet.Digest // what it proved that it runs; "": it is not up
	Speaks  bool         // its agent does, so it can be asked to reboot
	Refused string       // why it did not reboot when it was asked to
	Failure string       // what its boot fails at
	Off     bool         // it switched itself off before it was up
	Told    bool         // it has said which units have failed
	Units   []string     // which
}

// Use is what a hook is run for.
type Use string

// The uses of hooks.
const (
	Drain   Use = "drain"   // free the node of work; what fails is tried again
	Undrain Use = "undrain" // give it work again; what fails is tried again
	Restart Use = "reboot"  // reboot it; what fails is tried again
	Check   Use = "check"   // judge it; what fails has failed
)

// Hook is one run of a hook, which has one result.
type Hook struct {
	Use  Use
	Name string
	Node string
	Boot fleet.BootID // the node's, when it was asked for
}

// Result is how a hook ended.
type Result struct {
	OK   bool
	Says string // the last line that it printed, or why it did not run
}

// Actions are what is to be done now. Doing it again does no harm.
type Actions struct {
	Reboot []Ask
	Stage  []Ask // have them fetch the new version ahead; the boot goes on
	Run    []Hook
	Image  fleet.Ref // of the group from now on; "": as it is. It is set together with keeping the rollout.
	Notes  []Note
}

// Ask is a boot that a node is asked to end. Another boot of the node is not meant.
type Ask struct {
	Node   string
	Boot   fleet.BootID
	Method fleet.BootMethod // by which it is to come to its next one; auto: whoever asks finds out
}

// Note is something that happened, for people. Bad is for what they should look at.
type Note struct {
	Node    string // "": the rollout as a whole
	Phase   fleet.RolloutPhase
	Message string
	Bad     bool
}
