package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/fleet"
)

// Candidate is a node that may take part in a new rollout.
type Candidate struct {
	Name   string
	Up     bool
	Seen   time.Time     // when it was last seen
	Class  string        // the kind of machine; canaries are of as many kinds as possible
	Usual  time.Duration // how long its boots usually take; 0: unknown
	Broken []string      // its units that have failed
	Tried  bool          // the new version was its own before; it is a canary
}

// Begin returns a rollout of nodes, which are in natural order of their names. The caller fills in ID, group and
// versions.
func Begin(r fleet.Rollout, nodes []Candidate, now time.Time) (fleet.Rollout, error) {
	if err := r.Plan.Validate(); err != nil {
		return r, err
	}
	if len(nodes) == 0 {
		return r, errors.New("there is no node that would follow: the group has none, or each has a version of its own")
	}
	canaries, err := canaries(r.Plan, nodes)
	if err != nil {
		return r, err
	}
	var usual []time.Duration
	for _, c := range nodes {
		if c.Tried { // what fails on it says nothing of the version before
			continue
		}
		if c.Usual > 0 {
			usual = append(usual, c.Usual)
		}
		for _, u := range c.Broken {
			if !slices.Contains(r.Broken, u) {
				r.Broken = append(r.Broken, u)
			}
		}
	}
	if slices.Sort(usual); len(usual) > 0 {
		r.Usual = usual[len(usual)/2]
	}
	slices.Sort(r.Broken)
	r.State, r.Created, r.Stepped = fleet.RolloutRunning, now, now
	r.Nodes, r.Waves = waves(r, nodes, canaries, now)
	return r, nil
}

// waves puts the canaries into wave 0 and the other nodes into later waves.
func waves(r fleet.Rollout, nodes []Candidate, canaries map[string]bool, now time.Time) ([]fleet.RolloutNode, int) {
	size := max(1, r.Plan.Wave.AtLeast(len(nodes)))
	first, rest := []fleet.RolloutNode{}, []fleet.RolloutNode{}
	for _, c := range nodes {
		n := fleet.RolloutNode{
			Node:   c.Name,
			Target: r.From,
			Phase:  fleet.PhaseWaiting,
			Silent: !c.Up,
			Limit:  Limit(r.Plan, r.Usual),
		}
		if c.Usual > 0 {
			n.Limit = Limit(r.Plan, c.Usual)
		}
		if c.Tried {
			n.Target = r.To
		}
		if n.Silent {
			n.SilentAt = -min(max(now.Sub(c.Seen), 0), goneAfter)
		}
		if canaries[c.Name] {
			first = append(first, n)
			continue
		}
		n.Wave = 1 + len(rest)/size
		rest = append(rest, n)
	}
	return append(first, rest...), 1 + (len(rest)+size-1)/size
}

// canaries returns the first wave: the named nodes, or nodes that are up, of as many kinds of machines as possible.
func canaries(p fleet.RolloutPlan, nodes []Candidate) (map[string]bool, error) {
	out := map[string]bool{}
	for _, c := range nodes {
		if c.Tried {
			out[c.Name] = true
		}
	}
	if len(p.CanaryNodes) > 0 {
		for _, name := range p.CanaryNodes {
			if !slices.ContainsFunc(nodes, func(c Candidate) bool { return c.Name == name }) {
				return nil, fmt.Errorf("canary %s is none of the nodes that would follow", name)
			}
			out[name] = true
		}
		return out, nil
	}
	want := min(p.Canary.AtLeast(len(nodes)), len(nodes))
	classes := map[string]bool{}
	for _, good := range []func(Candidate) bool{
		func(c Candidate) bool { return c.Up && !classes[c.Class] },
		func(c Candidate) bool { return c.Up },
		func(Candidate) bool { return true },
	} {
		for _, c := range nodes {
			if len(out) < want && !out[c.Name] && good(c) {
				out[c.Name], classes[c.Class] = true, true
			}
		}
	}
	return out, nil
}
