package power

import "time"

// Seen is what is known of a node when it is asked whether it has given up.
type Seen struct {
	Wanted bool          // it should be on
	Quiet  time.Duration // since its last sign: a packet, a report
	State  State         // as its switch tells; Unknown before it was asked
}

// GivenUp is how long a node is quiet before it counts as one that has given up. One that runs says something each
// minute, one that boots more often; firmware that finds no server for some minutes stops at a screen.
const GivenUp = 5 * time.Minute

// Sweep is what is done to a node after a power cut: one that should be on, and gives no sign, is switched on, or
// off and on when it has power and stands at a screen. "": nothing.
func Sweep(s Seen) Action {
	switch {
	case !s.Wanted || s.Quiet < GivenUp:
		return ""
	case s.State == IsOn:
		return Cycle
	}
	return On
}
