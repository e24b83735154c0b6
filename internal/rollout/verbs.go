package rollout

import (
	"fmt"
	"slices"

	"pando/internal/fleet"
)

// Pause stops a running rollout from taking more nodes. Nodes that it has taken go on, and are judged.
func Pause(r fleet.Rollout, who string) (fleet.Rollout, error) {
	if r.State != fleet.RolloutRunning {
		return r, fmt.Errorf("rollout %s is %s: only a running one can be paused", r.ID, r.State)
	}
	r.State, r.Reason = fleet.RolloutPaused, "by "+who
	return r, nil
}

// Resume continues a paused or halted rollout. Failed nodes are tried again.
func Resume(r fleet.Rollout) (fleet.Rollout, error) {
	if r.State != fleet.RolloutPaused && r.State != fleet.RolloutHalted {
		return r, fmt.Errorf("rollout %s is %s: only a paused or halted one can be resumed", r.ID, r.State)
	}
	r.State, r.Reason, r.Moved = fleet.RolloutRunning, "", r.Clock
	r.Nodes = slices.Clone(r.Nodes)
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Phase == fleet.PhaseFailed {
			n.Phase, n.Reason, n.Tries, n.At = fleet.PhaseWaiting, "", 0, r.Clock
		}
	}
	return r, nil
}

// Abort makes a rollout go back to the previous version.
func Abort(r fleet.Rollout, who string) (fleet.Rollout, error) {
	if !r.State.Live() || r.State == fleet.RolloutRollingBack {
		return r, fmt.Errorf("rollout %s is %s already", r.ID, r.State)
	}
	r.State, r.Reason, r.Moved = fleet.RolloutRollingBack, "aborted by "+who, r.Clock
	r.Nodes = slices.Clone(r.Nodes)
	beginRollback(&r)
	return r, nil
}
