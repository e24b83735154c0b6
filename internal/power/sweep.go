package power

import "time"

// Seen is what is known of a node when Sweep decides.
type Seen struct {
	Wanted bool          // the node should be on
	Quiet  time.Duration // time since its last packet or report
	State  State         // power state; Unknown before it was read
}

// GivenUp is how long a node must be silent before it counts as stuck. A running node reports each minute, a booting
// one more often; firmware that finds no server for some minutes stops at a screen.
const GivenUp = 5 * time.Minute

// Sweep returns the action for a node after a power cut. A silent node that should be on is switched on, or off and on
// if it has power and is stuck at a screen. "" is no action.
func Sweep(s Seen) Action {
	switch {
	case !s.Wanted || s.Quiet < GivenUp:
		return ""
	case s.State == IsOn:
		return Cycle
	}
	return On
}
