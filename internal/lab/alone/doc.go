// Package alone measures one machine by itself on a fast link, from /init to the default target, by Pando and in other
// ways, alternating.
//
// It owns the emulated machine, the replay of a recorded boot without one, and alone.json. cmd/pando-lab calls it and
// gives it the other ways. It must never import another room of the lab, and never compare times of different clocks.
package alone
