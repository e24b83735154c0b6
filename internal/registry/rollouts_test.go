package registry

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

func testRollouts(t *testing.T, r *Registry) {
	from, to := fleet.Ref("lab@sha256:"+strings.Repeat("1", 64)), fleet.Ref("lab@sha256:"+strings.Repeat("2", 64))
	must(t, r, func(tx *Tx) error {
		return errors.Join(
			tx.CreateNode(aNode("pc1", 1)),
			tx.CreateNode(aNode("pc2", 2)),
			tx.CreateGroup(fleet.Group{Name: "lab"}),
		)
	})
	first := fleet.Rollout{
		Group:   "default",
		From:    from,
		To:      to,
		Asked:   "lab:next",
		Plan:    fleet.RolloutPlan{}.WithDefaults(),
		State:   fleet.RolloutRunning,
		Waves:   2,
		Clock:   time.Minute,
		Stepped: now,
		Broken:  []string{"x.service"},
		Who:     "me",
		Created: now,
		Nodes: []fleet.RolloutNode{
			{
				Node:     "pc2",
				Target:   to,
				Phase:    fleet.PhaseBooting,
				At:       3,
				Boot:     "b",
				Tries:    1,
				Limit:    5,
				Before:   []string{"y"},
				Drained:  true,
				Silent:   true,
				SilentAt: -4,
				Reason:   "r",
			},
			{Node: "pc1", Wave: 1, Target: from, Phase: fleet.PhaseWaiting},
		},
	}
	var made fleet.Rollout
	must(t, r, func(tx *Tx) (err error) {
		made, err = tx.CreateRollout(first)
		return err
	})
	first.ID = "default-1"
	same(t, made, first)
	show := func() fleet.Rollout {
		t.Helper()
		return read(t, r, func(tx *Tx) (fleet.Rollout, error) { return tx.Rollout("default-1") })
	}
	same(t, show(), first)
	want(t, r, ErrInUse, func(tx *Tx) error { _, err := tx.CreateRollout(first); return err })
	want(t, r, ErrInUse, func(tx *Tx) error { return tx.DeleteRollout("default-1") })
	same(t, read(t, r, (*Tx).Targets), map[string]Target{"pc1": {"default-1", from}, "pc2": {"default-1", to}})

	next := first
	next.Wave, next.Nodes = 1, []fleet.RolloutNode{
		first.Nodes[0],
		first.Nodes[1],
		{Node: "pc3", Wave: 1, Target: from, Phase: fleet.PhaseWaiting},
	}
	next.Nodes[1].Phase = fleet.PhaseRebooting
	must(t, r, func(tx *Tx) error { return tx.PutRollout(next, first.Nodes) })
	same(t, show(), next)
	same(t, read(t, r, func(tx *Tx) (map[fleet.RolloutPhase]int, error) { return tx.RolloutPhases("default-1") }),
		map[fleet.RolloutPhase]int{fleet.PhaseBooting: 1, fleet.PhaseRebooting: 1, fleet.PhaseWaiting: 1})
	renamed := aNode("pc9", 1)
	must(t, r, func(tx *Tx) error { return tx.PutNode("pc1", renamed) })
	next.Nodes[1].Node = "pc9"
	same(t, show(), next)
	same(t, read(t, r, func(tx *Tx) (Target, error) { return tx.Target("pc9") }), Target{"default-1", from})

	// Its group, a version of its own, or the end of the rollout: each takes the target away.
	target := func(want Target) {
		t.Helper()
		same(t, read(t, r, func(tx *Tx) (Target, error) { return tx.Target("pc2") }), want)
	}
	other := aNode("pc2", 2)
	other.Group = "lab"
	must(t, r, func(tx *Tx) error { return tx.PutNode("pc2", other) })
	target(Target{})
	other.Group, other.Version, other.Follow = "default", "lab:own", true
	must(t, r, func(tx *Tx) error { return tx.PutNode("pc2", other) })
	target(Target{})
	must(t, r, func(tx *Tx) error { return tx.PutNode("pc2", aNode("pc2", 2)) })
	target(Target{"default-1", to})
	was := next.Nodes
	next.Nodes = append([]fleet.RolloutNode{}, was...)
	next.Nodes[0].Phase = fleet.PhaseLeft
	must(t, r, func(tx *Tx) error { return tx.PutRollout(next, was) })
	target(Target{})
	next.State, next.Ended = fleet.RolloutDone, now
	must(t, r, func(tx *Tx) error { return tx.PutRollout(next, next.Nodes) })
	same(t, read(t, r, (*Tx).Targets), map[string]Target{})

	must(t, r, func(tx *Tx) (err error) {
		first.Created = now.Add(time.Hour)
		made, err = tx.CreateRollout(first)
		return err
	})
	ids := func(f RolloutFilter) (out []string) {
		for _, x := range read(t, r, func(tx *Tx) ([]fleet.Rollout, error) { return tx.Rollouts(f) }) {
			out = append(out, x.ID)
		}
		return out
	}
	same(t, ids(RolloutFilter{}), []string{"default-2", "default-1"})
	same(t, ids(RolloutFilter{Live: true}), []string{"default-2"})
	same(t, ids(RolloutFilter{Group: "lab"}), []string(nil))
	must(t, r, func(tx *Tx) error { return tx.DeleteRollout("default-1") })
	want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.Rollout("default-1"); return err })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutRollout(fleet.Rollout{ID: "default-1"}, nil) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteRollout("none") })
}
