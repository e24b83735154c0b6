// Package alone measures one machine by itself, on a link that limits nothing: from /init to the default target, by
// Pando and in other ways, in turns.
//
// It owns the emulated machine, the replay of a recorded boot without one, and alone.json. cmd/pando-lab calls it and
// gives it the ways that are not Pando's. It must never import another room of the lab, and never compare times that
// were taken by different clocks.
package alone
