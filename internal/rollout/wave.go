package rollout

import (
	"fmt"
	"slices"

	"pando/internal/fleet"
)

// advance takes nodes of the present waves, and begins the next wave.
func (s *step) advance() {
	if s.r.Wave == 0 {
		s.replaceCanaries()
	}
	room := s.budget()
	for i := range s.r.Nodes {
		n := &s.r.Nodes[i]
		if n.Wave > s.r.Wave || n.Phase != fleet.PhaseWaiting {
			continue
		}
		ob := s.o.Nodes[n.Node]
		switch {
		case n.Wave > 0 && s.silence(n) >= silentAfter:
			n.Target, n.Boot = s.r.To, ob.Boot
			s.enter(n, fleet.PhaseAway, "it was not up; its next boot gets the new version")
		case !ob.Up:
			s.waits("waits for " + n.Node + ", which is not up")
		case !s.o.Open:
			s.waits("waits for the next window")
		case room.free() <= 0:
			if s.r.Reason == "" {
				s.waits(room.String())
			}
		default:
			room.down++
			s.begin(n, ob)
		}
	}
	s.finishWave()
}

// waits sets what a running rollout waits for. The first reason of a step counts.
func (s *step) waits(why string) {
	if s.r.Reason == "" {
		s.r.Reason = why
	}
}

// begin takes a node that is up.
func (s *step) begin(n *fleet.RolloutNode, ob Node) {
	n.Boot, n.Before = ob.Boot, s.r.Broken
	if ob.Told && ob.Running == s.from {
		n.Before = ob.Units
	}
	switch {
	case ob.Running == s.to: // it already runs the new version
		n.Target = s.r.To
		s.enter(n, fleet.PhaseChecking, "")
	case s.r.Plan.Drain != "":
		n.Drained = true
		s.enter(n, fleet.PhaseDraining, "")
	default:
		s.reboot(n, ob)
	}
}

// disruptionBudget counts the nodes, those that are unavailable, and how many may be.
type disruptionBudget struct{ total, down, most int }

func (r disruptionBudget) free() int { return r.most - r.down }

func (r disruptionBudget) String() string {
	return fmt.Sprintf("waits: %d of %d nodes are not available, and at most %d may be", r.down, r.total, r.most)
}

// budget counts the nodes. A node that has not been up for long is left out, because it does no work.
func (s *step) budget() disruptionBudget {
	var r disruptionBudget
	for i := range s.r.Nodes {
		n := &s.r.Nodes[i]
		if n.Phase == fleet.PhaseLeft || !underWay(n.Phase) && s.silence(n) >= goneAfter {
			continue
		}
		r.total++
		if !s.available(n) {
			r.down++
		}
	}
	r.most = s.r.Plan.MaxUnavailable.AtMost(r.total)
	return r
}

func underWay(p fleet.RolloutPhase) bool {
	switch p {
	case fleet.PhaseDraining, fleet.PhaseRebooting, fleet.PhaseBooting, fleet.PhaseChecking, fleet.PhaseFailed:
		return true
	}
	return false
}

// available reports whether a node can do its work.
func (s *step) available(n *fleet.RolloutNode) bool {
	return !n.Silent && !n.Drained && !underWay(n.Phase)
}

// finishWave begins the next wave when the present one has passed.
func (s *step) finishWave() {
	passed := 0
	for _, n := range s.r.Nodes {
		if n.Wave > s.r.Wave || n.Phase == fleet.PhaseLeft {
			continue
		}
		if n.Phase != fleet.PhasePassed && n.Phase != fleet.PhaseAway || n.Drained {
			s.r.Passed = 0
			return
		}
		if n.Phase == fleet.PhasePassed {
			passed++
		}
	}
	if passed == 0 && s.r.Wave == 0 {
		s.waits("waits for a node that can be the canary")
		return
	}
	if s.r.Passed == 0 {
		s.r.Passed = max(s.r.Clock, 1)
	}
	if left := s.r.Plan.Soak - (s.r.Clock - s.r.Passed); left > 0 {
		s.r.Moved = s.r.Clock
		s.waits(fmt.Sprintf("wave %d has passed; waits %s", s.r.Wave, s.r.Plan.Soak))
		return
	}
	s.r.Passed = 0
	if s.r.Wave+1 < s.r.Waves {
		s.r.Wave++
		s.r.Moved = s.r.Clock
		s.act.Notes = append(s.act.Notes, Note{Message: fmt.Sprintf("wave %d of %d begins", s.r.Wave+1, s.r.Waves)})
		return
	}
	s.act.Image = s.r.To
	s.state(fleet.RolloutDone, "")
}

// replaceCanaries replaces canaries that are not up, or were skipped, by nodes that are up: a canary is there to be
// judged.
func (s *step) replaceCanaries() {
	for i := range s.r.Nodes {
		n := &s.r.Nodes[i]
		silent := n.Phase == fleet.PhaseWaiting && s.silence(n) >= silentAfter
		if n.Wave != 0 || !silent && n.Phase != fleet.PhaseAway {
			continue
		}
		for j := range s.r.Nodes {
			other := &s.r.Nodes[j]
			if other.Wave > 0 && other.Phase == fleet.PhaseWaiting && !other.Silent {
				n.Wave, other.Wave = other.Wave, 0
				n.Target = s.r.From
				s.r.Moved = s.r.Clock
				s.act.Notes = append(
					s.act.Notes,
					Note{Node: other.Node, Phase: other.Phase, Message: "is a canary, in the place of " + n.Node},
				)
				break
			}
		}
	}
}

// request adds the actions that a node's phase needs.
func (s *step) request(n *fleet.RolloutNode) {
	ob, here := s.o.Nodes[n.Node]
	if !here {
		return
	}
	p := s.r.Plan
	switch {
	case n.Phase == fleet.PhaseWaiting && ob.Up && ob.Speaks && ob.Running != s.to && ob.Staged != s.to &&
		stages(s.r, n):
		s.act.Stage = append(s.act.Stage, Ask{n.Node, ob.Boot, p.Method})
	case n.Phase == fleet.PhaseDraining:
		s.run(Hook{Drain, p.Drain, n.Node, n.Boot})
	case n.Phase == fleet.PhaseRebooting && ob.Boot == n.Boot && p.Reboot != "":
		s.run(Hook{Restart, p.Reboot, n.Node, n.Boot})
	case n.Phase == fleet.PhaseRebooting && ob.Boot == n.Boot && ob.Speaks:
		s.act.Reboot = append(s.act.Reboot, Ask{n.Node, n.Boot, s.method(n)})
	case n.Phase == fleet.PhaseChecking && ob.Up && ob.Boot == n.Boot && s.r.State != fleet.RolloutRollingBack:
		s.askChecks(n, ob)
	case settled(n.Phase) && n.Drained && ob.Up && p.Undrain != "":
		s.run(s.undrain(n))
	}
}

// StagesFor reports whether a rollout makes a node fetch its version ahead: a waiting node of the present wave or the
// next one, if it may change without another kernel. So the node is ready when a window opens or its wave begins.
func StagesFor(r fleet.Rollout, node string) bool {
	i := slices.IndexFunc(r.Nodes, func(n fleet.RolloutNode) bool { return n.Node == node })
	return i >= 0 && stages(&r, &r.Nodes[i])
}

func stages(r *fleet.Rollout, n *fleet.RolloutNode) bool {
	m := r.Plan.Method.Effective()
	return r.State == fleet.RolloutRunning && (m == fleet.MethodAuto || m == fleet.MethodSoftReboot) &&
		n.Phase == fleet.PhaseWaiting &&
		n.Wave <= r.Wave+1
}

// method returns how a node gets to its next boot. If the node was told before, or has not rebooted in time, it reboots
// by its firmware, which repairs most.
func (s *step) method(n *fleet.RolloutNode) fleet.BootMethod {
	if n.Tries > 1 || s.since(n) > softWithin {
		return fleet.MethodReboot
	}
	return s.r.Plan.Method.Effective()
}

// askChecks runs the scripts of the gate when the failed units are known.
func (s *step) askChecks(n *fleet.RolloutNode, ob Node) {
	for _, g := range s.r.Plan.Gates {
		if g.Kind() == fleet.GateUnits && !ob.Told {
			return
		}
	}
	for _, g := range s.r.Plan.Gates {
		if g.Kind() == fleet.GateScript {
			s.run(check(g, n))
		}
	}
}

func (s *step) run(h Hook) {
	if !s.o.Results[h].OK {
		s.act.Run = append(s.act.Run, h)
	}
}
