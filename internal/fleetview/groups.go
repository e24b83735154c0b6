package fleetview

import (
	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// Groups returns groups with their number of adopted nodes and the version that their image resolves to.
func Groups(tx *registry.Tx, groups []fleet.Group) ([]api.Group, error) {
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	members := map[string]int{}
	for _, n := range nodes {
		if n.State == fleet.Adopted {
			members[n.Group]++
		}
	}
	out := make([]api.Group, len(groups))
	for i, g := range groups {
		out[i] = api.Group{Group: g, Nodes: members[g.Name]}
		if g.Image == "" {
			continue
		}
		if out[i].Desired, err = tx.Resolve(g.Image); err != nil && !Absent(err) {
			return nil, err
		}
	}
	return out, nil
}

// Rollout converts a rollout for the API, with its nodes and their number in each phase.
func Rollout(r fleet.Rollout) api.Rollout {
	out := api.Rollout{Rollout: r, Phases: map[fleet.RolloutPhase]int{}}
	for _, n := range r.Nodes {
		out.Phases[n.Phase]++
	}
	if r.Nodes == nil {
		out.Nodes = []fleet.RolloutNode{}
	}
	return out
}

// Rollouts returns rollouts for the API, without their nodes.
func Rollouts(tx *registry.Tx, f registry.RolloutFilter) ([]api.Rollout, error) {
	all, err := tx.Rollouts(f)
	out := []api.Rollout{}
	for _, r := range all {
		view := Rollout(r)
		if view.Phases, err = tx.RolloutPhases(r.ID); err != nil {
			return nil, err
		}
		out = append(out, view)
	}
	return out, err
}
