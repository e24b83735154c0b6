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
	longestTick = 30 * time.Second // between two steps the clock goes on by no more than this

	silentAfter = 10 * time.Minute // a node that is not up for so long when its turn comes is passed over
	goneAfter   = time.Hour        // a node that is not up for so long is none of those that may be down
	downWithin  = 15 * time.Minute // from the request to reboot until the node is told what to boot
	softWithin  = 7 * time.Minute  // the same for a way without firmware; then it is asked to reboot
	backWithin  = 30 * time.Minute // the same on the way back, when it may have to find out first that it is stuck
	leastBoot   = 3 * time.Minute  // a boot has at least this long
	unknownBoot = 15 * time.Minute // and this where nobody knows how long one takes
	tellWithin  = 10 * time.Minute // from booted until the failed units are told
	checkWithin = 30 * time.Minute // from booted until the last script has ended
	freeWithin  = 10 * time.Minute // from passed until the undrain hook has succeeded
	patience    = 24 * time.Hour   // nothing at all has gone on
	mostTries   = 3                // reboots of one node
)

// step is one step under way.
type step struct {
	r        *fleet.Rollout
	o        Observed
	from, to fleet.Digest
	act      Actions
}

// Step takes a rollout as far as it goes now.
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

// tick lets the clock go on. The gaps in which nobody looked after the rollout do not count.
func (s *step) tick(now time.Time) {
	if !s.r.Stepped.IsZero() {
		s.r.Clock += min(max(now.Sub(s.r.Stepped), 0), longestTick)
	}
	s.r.Stepped = now
	if s.r.State == fleet.RolloutPaused || s.r.State == fleet.RolloutHalted || !s.o.Open {
		s.r.Moved = s.r.Clock // nobody is waited for
	}
}

// keptReason is the reason for a state that lasts; what a running rollout waits for is found anew in each step.
func (s *step) keptReason() string {
	if s.r.State == fleet.RolloutRunning {
		return ""
	}
	return s.r.Reason
}

// members takes note of nodes that came and went.
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

// join puts a node that is new in the group into the last wave, which is never the canary.
func (s *step) join(name string) {
	s.r.Waves = max(s.r.Waves, 2)
	s.r.Nodes = append(
		s.r.Nodes,
		fleet.RolloutNode{Node: name, Wave: s.r.Waves - 1, Target: s.r.From, Phase: fleet.PhaseWaiting,
			At: s.r.Clock, Limit: Limit(s.r.Plan, s.r.Usual)},
	)
	s.r.Moved = s.r.Clock
}

// Limit is how long a boot may take that usually takes so long; 0: nobody knows.
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

// since is how long a node has been in its phase.
func (s *step) since(n *fleet.RolloutNode) time.Duration { return s.r.Clock - n.At }

// silence is how long a node that is not up has not been so.
func (s *step) silence(n *fleet.RolloutNode) time.Duration {
	if !n.Silent {
		return 0
	}
	return s.r.Clock - n.SilentAt
}

// state changes what the rollout as a whole does.
func (s *step) state(st fleet.RolloutState, reason string) {
	s.r.State, s.r.Reason, s.r.Moved = st, reason, s.r.Clock
	bad := st == fleet.RolloutHalted || st == fleet.RolloutRollingBack || st == fleet.RolloutRolledBack
	s.act.Notes = append(s.act.Notes, Note{Message: strings.TrimSuffix(string(st)+": "+reason, ": "), Bad: bad})
}

// judge halts or turns back when a node has failed.
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

// patience ends what does not go on by itself.
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
