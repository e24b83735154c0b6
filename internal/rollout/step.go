package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/fleet"
)

// How long things may take, on the rollout's clock.
const (
	longestTick = 30 * time.Second // the clock advances by no more than this between two steps

	silentAfter = 10 * time.Minute // a waiting node that is not up for so long is skipped
	goneAfter   = time.Hour        // a node that is not up for so long does not count in the disruption budget
	downWithin  = 15 * time.Minute // from the request to reboot until the node is told what to boot
	softWithin  = 7 * time.Minute  // the same for soft-reboot and kexec; then the node is told to reboot
	backWithin  = 30 * time.Minute // the same in a rollback, when a stuck node may have to detect that first
	leastBoot   = 3 * time.Minute  // the shortest time limit of a boot
	unknownBoot = 15 * time.Minute // the time limit of a boot whose usual time is unknown
	tellWithin  = 10 * time.Minute // from booted until the failed units are reported
	checkWithin = 30 * time.Minute // from booted until the last script has ended
	freeWithin  = 10 * time.Minute // from passed until the undrain hook has succeeded
	patience    = 24 * time.Hour   // longest time without any progress
	mostTries   = 3                // reboots of one node
)

// step is one call of Step.
type step struct {
	r        *fleet.Rollout
	o        Observed
	from, to fleet.Digest
	act      Actions
}

// Step advances a rollout as far as possible now. Actions follow from the state, not from its change, so a lost action
// is returned again by the next step, and a repeated one does no harm. A rollout's clock runs only while a server steps
// it, so a server's outage costs no node its time.
func Step(r fleet.Rollout, o Observed, now time.Time) (fleet.Rollout, Actions) {
	if !r.State.Live() {
		return r, Actions{}
	}
	r.Nodes = slices.Clone(r.Nodes)
	s := &step{r: &r, o: o, from: digest(r.From), to: digest(r.To)}
	s.tick(now)
	s.members()
	for i := range r.Nodes {
		s.observe(&r.Nodes[i])
	}
	s.judge()
	r.Reason = s.keptReason()
	switch r.State {
	case fleet.RolloutRunning:
		s.advance()
	case fleet.RolloutRollingBack:
		s.rollBack()
	}
	s.patience()
	if !r.State.Live() {
		r.Ended = now
	}
	for i := range r.Nodes {
		s.request(&r.Nodes[i])
	}
	return r, s.act
}

func digest(r fleet.Ref) fleet.Digest {
	_, _, d, _ := r.Split() // it was checked when the rollout began
	return d
}

// tick advances the clock. Gaps in which no server stepped the rollout do not count.
func (s *step) tick(now time.Time) {
	if !s.r.Stepped.IsZero() {
		s.r.Clock += min(max(now.Sub(s.r.Stepped), 0), longestTick)
	}
	s.r.Stepped = now
	if s.r.State == fleet.RolloutPaused || s.r.State == fleet.RolloutHalted || !s.o.Open {
		s.r.Moved = s.r.Clock // the rollout waits for no node
	}
}

// keptReason returns the reason of a lasting state. What a running rollout waits for is determined again in each step.
func (s *step) keptReason() string {
	if s.r.State == fleet.RolloutRunning {
		return ""
	}
	return s.r.Reason
}

// members records nodes that joined or left the group.
func (s *step) members() {
	known := make(map[string]bool, len(s.r.Nodes))
	for i := range s.r.Nodes {
		n := &s.r.Nodes[i]
		known[n.Node] = true
		_, here := s.o.Nodes[n.Node]
		switch {
		case !here && n.Phase != fleet.PhaseLeft:
			s.enter(n, fleet.PhaseLeft, "it left the group, or has a version of its own")
		case here && n.Phase == fleet.PhaseLeft:
			n.Target, n.Tries, n.Drained = s.r.From, 0, false
			s.enter(n, fleet.PhaseWaiting, "")
		}
	}
	if s.r.State == fleet.RolloutRollingBack || len(known) >= len(s.o.Nodes) && !s.unknown(known) {
		return
	}
	for _, name := range s.names() {
		if !known[name] {
			s.join(name)
		}
	}
}

func (s *step) unknown(known map[string]bool) bool {
	for name := range s.o.Nodes {
		if !known[name] {
			return true
		}
	}
	return false
}

func (s *step) names() []string {
	names := make([]string, 0, len(s.o.Nodes))
	for name := range s.o.Nodes {
		names = append(names, name)
	}
	slices.SortFunc(names, fleet.CompareNames)
	return names
}

// join adds a node that is new in the group to the last wave, which is never the canary.
func (s *step) join(name string) {
	s.r.Waves = max(s.r.Waves, 2)
	s.r.Nodes = append(
		s.r.Nodes,
		fleet.RolloutNode{Node: name, Wave: s.r.Waves - 1, Target: s.r.From, Phase: fleet.PhaseWaiting,
			At: s.r.Clock, Limit: Limit(s.r.Plan, s.r.Usual)},
	)
	s.r.Moved = s.r.Clock
}

// Limit returns how long a boot may take whose usual time is given; 0: unknown.
func Limit(p fleet.RolloutPlan, usual time.Duration) time.Duration {
	if usual <= 0 {
		return unknownBoot
	}
	times := fleet.GateBooted.Times()
	for _, g := range p.Gates {
		if g.Kind() == fleet.GateBooted {
			times = g.Times()
		}
	}
	return max(leastBoot, time.Duration(times*float64(usual)))
}

// enter begins a phase of a node.
func (s *step) enter(n *fleet.RolloutNode, p fleet.RolloutPhase, reason string) {
	n.Phase, n.At, n.Reason = p, s.r.Clock, reason
	s.r.Moved = s.r.Clock
	bad := p == fleet.PhaseFailed || p == fleet.PhaseLost
	s.act.Notes = append(s.act.Notes, Note{n.Node, p, strings.TrimSuffix(string(p)+": "+reason, ": "), bad})
}

// since returns how long a node has been in its phase.
func (s *step) since(n *fleet.RolloutNode) time.Duration { return s.r.Clock - n.At }

// silence returns how long a node has not been up.
func (s *step) silence(n *fleet.RolloutNode) time.Duration {
	if !n.Silent {
		return 0
	}
	return s.r.Clock - n.SilentAt
}

// state changes the state of the rollout as a whole.
func (s *step) state(st fleet.RolloutState, reason string) {
	s.r.State, s.r.Reason, s.r.Moved = st, reason, s.r.Clock
	bad := st == fleet.RolloutHalted || st == fleet.RolloutRollingBack || st == fleet.RolloutRolledBack
	s.act.Notes = append(s.act.Notes, Note{Message: strings.TrimSuffix(string(st)+": "+reason, ": "), Bad: bad})
}

// judge halts the rollout or begins a rollback if a node has failed.
func (s *step) judge() {
	if s.r.State != fleet.RolloutRunning && s.r.State != fleet.RolloutPaused {
		return
	}
	for _, n := range s.r.Nodes {
		if n.Phase != fleet.PhaseFailed {
			continue
		}
		why := fmt.Sprintf("node %s: %s", n.Node, n.Reason)
		if s.r.Plan.OnFail == fleet.FailHalt {
			s.state(fleet.RolloutHalted, why)
		} else {
			s.state(fleet.RolloutRollingBack, why)
			beginRollback(s.r)
		}
		return
	}
}

// patience ends a rollout without progress.
func (s *step) patience() {
	if s.r.Clock-s.r.Moved <= patience {
		return
	}
	why := s.r.Reason
	if s.r.State == fleet.RolloutRunning {
		s.state(fleet.RolloutHalted, fmt.Sprintf("nothing has gone on for %s; %s", patience, why))
		return
	}
	for i := range s.r.Nodes {
		if n := &s.r.Nodes[i]; !rolledBack(n) {
			s.enter(
				n,
				fleet.PhaseLost,
				fmt.Sprintf("nothing has gone on for %s; its next boot gets the version before", patience),
			)
		}
	}
}
