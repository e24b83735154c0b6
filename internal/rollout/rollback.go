package rollout

import (
	"fmt"

	"pando/internal/fleet"
)

// beginRollback begins a rollback: every node gets the previous version at its next boot, and nodes that run another
// version are rebooted.
func beginRollback(r *fleet.Rollout) {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Phase == fleet.PhaseLeft {
			continue
		}
		n.Target, n.Tries, n.At = r.From, 0, r.Clock
		switch n.Phase {
		case fleet.PhaseBooting, fleet.PhaseChecking:
			n.Phase, n.Reason = fleet.PhaseFailed, "it was not judged yet when the rollback began"
		case fleet.PhaseFailed:
		default:
			n.Phase = fleet.PhaseWaiting
		}
	}
}

func rolledBack(n *fleet.RolloutNode) bool {
	return (n.Phase == fleet.PhaseReturned || n.Phase == fleet.PhaseLost) && !n.Drained || n.Phase == fleet.PhaseLeft
}

// observeRollback is observe during a rollback.
func (s *step) observeRollback(n *fleet.RolloutNode, ob Node) {
	home := ob.Up && ob.Running == s.from
	switch n.Phase {
	case fleet.PhaseWaiting, fleet.PhaseFailed:
		switch {
		case home:
			s.enter(n, fleet.PhaseReturned, "")
		case n.Phase == fleet.PhaseWaiting && s.silence(n) >= silentAfter:
			s.enter(n, fleet.PhaseReturned, "it is not up; its next boot gets the version before")
		}
	case fleet.PhaseDraining:
		switch {
		case home:
			s.enter(n, fleet.PhaseReturned, "")
		case s.o.Results[Hook{Drain, s.r.Plan.Drain, n.Node, n.Boot}].OK:
			s.rebootToPrevious(n, ob)
		case s.since(n) > s.r.Plan.DrainFor:
			s.enter(
				n,
				fleet.PhaseLost,
				fmt.Sprintf("it was not drained in %s; its next boot gets the version before", s.r.Plan.DrainFor),
			)
		}
	case fleet.PhaseRebooting, fleet.PhaseBooting:
		s.observeReboot(n, ob, home)
	case fleet.PhaseLost:
		if home {
			s.enter(n, fleet.PhaseReturned, "")
		}
	case fleet.PhaseReturned:
		if ob.Up && !home && n.Tries < mostTries {
			s.enter(n, fleet.PhaseWaiting, "") // it booted the version that it was told before
		}
	}
}

// observeReboot observes a node that was told to reboot into the previous version.
func (s *step) observeReboot(n *fleet.RolloutNode, ob Node, home bool) {
	limit := n.Limit
	if n.Phase == fleet.PhaseRebooting {
		limit = backWithin
	}
	switch {
	case home:
		s.enter(n, fleet.PhaseReturned, "")
	case ob.Boot != n.Boot && ob.Up && n.Tries < mostTries:
		s.rebootToPrevious(n, ob)
	case n.Phase == fleet.PhaseRebooting && ob.Boot != n.Boot && ob.Version == s.from:
		n.Boot = ob.Boot
		s.enter(n, fleet.PhaseBooting, "")
	case s.since(n) > limit:
		why := "it does not come back; switch it off and on: its next boot gets the version before"
		if ob.Refused != "" {
			why = "it cannot reboot: " + ob.Refused
		}
		s.enter(n, fleet.PhaseLost, why)
	}
}

func (s *step) rebootToPrevious(n *fleet.RolloutNode, ob Node) {
	n.Boot = ob.Boot
	n.Tries++
	s.enter(n, fleet.PhaseRebooting, "")
}

// rollBack reboots nodes into the previous version: failed nodes at once, working ones as the disruption budget allows.
func (s *step) rollBack() {
	room := s.budget()
	open := 0
	for i := range s.r.Nodes {
		n := &s.r.Nodes[i]
		ob := s.o.Nodes[n.Node]
		if !rolledBack(n) {
			open++
		}
		switch {
		case n.Phase == fleet.PhaseFailed:
			s.rebootToPrevious(n, ob)
		case n.Phase != fleet.PhaseWaiting || !ob.Up || !s.o.Open || room.free() <= 0:
		case n.Tries >= mostTries:
			s.enter(
				n,
				fleet.PhaseLost,
				"it comes up with something else, again and again; its next boot gets the version before",
			)
		default:
			room.down++
			n.Boot = ob.Boot
			if s.r.Plan.Drain == "" || n.Drained {
				s.rebootToPrevious(n, ob)
				continue
			}
			n.Drained = true
			s.enter(n, fleet.PhaseDraining, "")
		}
	}
	if open == 0 {
		s.act.Image = s.r.From
		s.state(fleet.RolloutRolledBack, s.r.Reason)
	}
}
