package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/fleet"
)

// observe updates one node's phase by its observed state.
func (s *step) observe(n *fleet.RolloutNode) {
	if n.Phase == fleet.PhaseLeft {
		return
	}
	ob := s.o.Nodes[n.Node]
	if !ob.Up && !n.Silent {
		n.SilentAt = s.r.Clock
	}
	n.Silent = !ob.Up
	s.undrained(n)
	if s.r.State == fleet.RolloutRollingBack {
		s.observeRollback(n, ob)
		return
	}
	switch n.Phase {
	case fleet.PhaseDraining:
		s.observeDraining(n, ob)
	case fleet.PhaseRebooting:
		s.observeRebooting(n, ob)
	case fleet.PhaseBooting:
		s.observeBooting(n, ob)
	case fleet.PhaseChecking:
		s.observeChecking(n, ob)
	case fleet.PhaseAway:
		s.observeSkipped(n, ob)
	}
}

// settled reports whether the rollout expects nothing of a node in this phase.
func settled(p fleet.RolloutPhase) bool {
	switch p {
	case fleet.PhasePassed, fleet.PhaseAway, fleet.PhaseReturned, fleet.PhaseLost:
		return true
	}
	return false
}

// undrained gives a node work again if it need not stay drained. A hook that keeps failing does not block the rollout
// for ever.
func (s *step) undrained(n *fleet.RolloutNode) {
	if !n.Drained || !settled(n.Phase) {
		return
	}
	switch {
	case s.r.Plan.Undrain == "", s.o.Results[s.undrain(n)].OK:
		n.Drained = false
	case s.since(n) > freeWithin:
		n.Drained = false
		s.act.Notes = append(
			s.act.Notes,
			Note{n.Node, n.Phase, fmt.Sprintf("the hook %s did not succeed: %s", s.r.Plan.Undrain,
				s.o.Results[s.undrain(n)].Says), true},
		)
	}
}

func (s *step) undrain(n *fleet.RolloutNode) Hook {
	return Hook{Undrain, s.r.Plan.Undrain, n.Node, s.o.Nodes[n.Node].Boot}
}

func (s *step) observeDraining(n *fleet.RolloutNode, ob Node) {
	switch {
	case s.o.Results[Hook{Drain, s.r.Plan.Drain, n.Node, n.Boot}].OK:
		s.reboot(n, ob)
	case s.since(n) > s.r.Plan.DrainFor:
		s.enter(n, fleet.PhaseAway, fmt.Sprintf("it was not drained in %s", s.r.Plan.DrainFor))
	}
}

// reboot tells a node to boot the new version.
func (s *step) reboot(n *fleet.RolloutNode, ob Node) {
	n.Target, n.Boot = s.r.To, ob.Boot
	n.Tries++
	s.enter(n, fleet.PhaseRebooting, "")
}

func (s *step) observeRebooting(n *fleet.RolloutNode, ob Node) {
	switch {
	case ob.Boot != n.Boot && ob.Version == s.to:
		s.boots(n, ob)
	case ob.Boot != n.Boot && ob.Up && n.Tries < mostTries: // this boot began before the node got its target
		n.Boot = ob.Boot
		n.Tries++
		n.At = s.r.Clock
	case ob.Boot != n.Boot && ob.Up:
		s.enter(n, fleet.PhaseAway, fmt.Sprintf("it booted %s, again and again", ob.Running.Short()))
	case ob.Boot == n.Boot && ob.Refused != "":
		s.enter(n, fleet.PhaseAway, "it cannot reboot: "+ob.Refused)
	case s.since(n) > downWithin:
		s.enter(
			n,
			fleet.PhaseAway,
			fmt.Sprintf("it was asked to reboot, and has not asked what to boot for %s", downWithin),
		)
	}
}

// boots begins to judge a boot of the new version.
func (s *step) boots(n *fleet.RolloutNode, ob Node) {
	n.Boot = ob.Boot
	s.enter(n, fleet.PhaseBooting, "")
	s.observeBooting(n, ob)
}

func (s *step) observeBooting(n *fleet.RolloutNode, ob Node) {
	if ob.Boot != n.Boot && ob.Version != "" {
		n.Boot = ob.Boot // the node started again; its time goes on
	}
	switch {
	case ob.Up && ob.Running == s.to:
		s.enter(n, fleet.PhaseChecking, "")
		s.observeChecking(n, ob)
	case ob.Up && n.Tries >= mostTries:
		s.enter(n, fleet.PhaseAway, fmt.Sprintf("it booted %s, again and again", ob.Running.Short()))
	case ob.Up:
		s.reboot(n, ob) // of another version: this boot began before the node got its target
	case ob.Boot == n.Boot && ob.Off:
		s.enter(n, fleet.PhaseFailed, "it switched itself off before it was up: "+ob.Failure)
	case s.since(n) > n.Limit:
		why := fmt.Sprintf("it has not booted in %s", n.Limit.Round(time.Second))
		if ob.Failure != "" {
			why += ": " + ob.Failure
		}
		s.enter(n, fleet.PhaseFailed, why)
	}
}

func (s *step) observeChecking(n *fleet.RolloutNode, ob Node) {
	if ob.Boot != n.Boot || !ob.Up {
		if ob.Boot != n.Boot {
			s.bootsAgain(n, ob)
		} else if s.silence(n) > tellWithin {
			s.enter(n, fleet.PhaseFailed, fmt.Sprintf("it booted, and has not reported for %s", tellWithin))
		}
		return
	}
	verdict, why := s.verdict(n, ob)
	switch {
	case verdict == fleet.PhaseFailed:
		s.enter(n, fleet.PhaseFailed, why)
	case verdict == fleet.PhasePassed:
		s.enter(n, fleet.PhasePassed, "")
	case s.since(n) > checkWithin:
		s.enter(n, fleet.PhaseFailed, fmt.Sprintf("the gate has no verdict after %s", checkWithin))
	}
}

// bootsAgain handles a node that booted the new version and boots again before it was judged. Somebody may have reset
// it, but a version that restarts each boot has failed.
func (s *step) bootsAgain(n *fleet.RolloutNode, ob Node) {
	if n.Tries++; n.Tries > mostTries {
		s.enter(n, fleet.PhaseFailed, "it boots again and again")
		return
	}
	n.Boot = ob.Boot
	s.enter(n, fleet.PhaseBooting, "")
}

// verdict returns the gate's result for a booted node: passed, failed, or checking while it is unknown.
func (s *step) verdict(n *fleet.RolloutNode, ob Node) (fleet.RolloutPhase, string) {
	verdict := fleet.PhasePassed
	for _, g := range s.r.Plan.Gates {
		switch g.Kind() {
		case fleet.GateUnits:
			switch broken := newlyBroken(ob.Units, n.Before); {
			case ob.Told && len(broken) > 0:
				return fleet.PhaseFailed, "units failed that had not failed before: " + strings.Join(broken, ", ")
			case !ob.Told && s.since(n) > tellWithin:
				return fleet.PhaseFailed, fmt.Sprintf("it has not reported its failed units for %s", tellWithin)
			case !ob.Told:
				return fleet.PhaseChecking, "" // scripts run once the units are known
			}
		case fleet.GateSpeed:
			if s.o.Slower != "" {
				return fleet.PhaseFailed, s.o.Slower
			}
		case fleet.GateScript:
			res, ended := s.o.Results[check(g, n)]
			switch {
			case !ended:
				verdict = fleet.PhaseChecking
			case !res.OK:
				return fleet.PhaseFailed, fmt.Sprintf("script %s: %s", g.Arg(), res.Says)
			}
		}
	}
	return verdict, ""
}

func check(g fleet.Gate, n *fleet.RolloutNode) Hook { return Hook{Check, g.Arg(), n.Node, n.Boot} }

func newlyBroken(units, before []string) []string {
	var out []string
	for _, u := range units {
		if !slices.Contains(before, u) {
			out = append(out, u)
		}
	}
	return out
}

// observeSkipped observes a node that was skipped and is back.
func (s *step) observeSkipped(n *fleet.RolloutNode, ob Node) {
	switch {
	case n.Tries >= mostTries && !(ob.Boot != n.Boot && ob.Version == s.to):
		// It was told to reboot often enough. It is judged when it boots the new version.
	case n.Target == s.r.To && ob.Boot != n.Boot && ob.Version == s.to:
		if len(n.Before) == 0 {
			n.Before = s.r.Broken
		}
		s.boots(n, ob)
	case ob.Up && n.Drained:
		// It gets work first.
	case ob.Up && ob.Refused != "" && ob.Boot == n.Boot:
		// It would refuse again.
	case ob.Up:
		s.enter(n, fleet.PhaseWaiting, "")
	}
}
