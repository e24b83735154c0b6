package fleetview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
	"time"
)

// SilentAfter is how long after it was last seen a node still counts as running its latest boot, when something is to
// be deleted.
const SilentAfter = 7 * 24 * time.Hour

// Nodes makes API views of nodes.
type Nodes struct {
	Registry *registry.Registry
	LastSeen func(fleet.Node) time.Time // when a node was last seen
	Address  func(fleet.MAC) netip.Addr // address of a node's last report; nil: unknown
	// State returns the state of a node's latest boot. If it is nil, the state follows from the boot's events alone.
	State func(context.Context, fleet.Node, registry.Progress) (trace.State, error)
}

// Views returns nodes for the API, with the versions that they should run and their latest boots.
func (v Nodes) Views(ctx context.Context, tx *registry.Tx, nodes []fleet.Node) ([]api.Node, error) {
	want, err := Desired(tx)
	if err != nil {
		return nil, err
	}
	boots, err := tx.LatestBoots(Names(nodes)...)
	if err != nil {
		return nil, err
	}
	ids := make([]fleet.BootID, 0, len(nodes))
	for _, n := range nodes {
		if b, ok := boots[n.Name]; ok {
			ids = append(ids, b.ID)
		}
	}
	progress, err := v.Registry.Progress(ctx, ids...)
	if err != nil {
		return nil, err
	}
	hardware, err := tx.Hardware(Names(nodes)...)
	if err != nil {
		return nil, err
	}
	classes, err := tx.Classes()
	if err != nil {
		return nil, err
	}
	targets, err := tx.Targets()
	if err != nil {
		return nil, err
	}
	out := make([]api.Node, len(nodes))
	for i, n := range nodes {
		out[i] = api.Node{Node: n, Desired: want(n), Rollout: targets[n.Name].Rollout}
		joinHardware(&out[i], hardware, classes)
		out[i].Seen = v.LastSeen(n)
		b, ok := boots[n.Name]
		if !ok {
			continue
		}
		if err := v.addBoot(ctx, &out[i], b, progress[b.ID]); err != nil {
			return nil, err
		}
		if out[i].Boot.State != trace.Down {
			out[i].IP = v.address(b)
		}
	}
	return out, nil
}

// address returns the address of a boot's machine: that of its last report, else that at the boot.
func (v Nodes) address(b registry.Boot) netip.Addr {
	if v.Address != nil {
		if a := v.Address(b.MAC); a.IsValid() {
			return a
		}
	}
	return b.Addr
}

// addBoot adds a node's latest boot to the node's view.
func (v Nodes) addBoot(ctx context.Context, n *api.Node, b registry.Boot, p registry.Progress) error {
	state, err := p.State, error(nil)
	if v.State != nil {
		state, err = v.State(ctx, n.Node, p)
	}
	view := Boot(b, p, state)
	n.Boot = &view
	return errors.Join(err, AddStatus(n, b, p))
}

// AddStatus adds what a node's latest boot runs, and what the node reported of itself.
func AddStatus(n *api.Node, b registry.Boot, p registry.Progress) error {
	if len(p.Status) > 0 {
		n.Status = new(api.NodeStatus)
		if err := json.Unmarshal(p.Status, n.Status); err != nil {
			return fmt.Errorf("boot %s: status: %w", b.ID, err)
		}
	}
	if p.State == trace.Up {
		n.Running = b.Version
		if n.Status != nil && n.Status.Version != "" {
			n.Running = n.Status.Version
		}
	}
	n.Drift = n.Running != "" && n.Desired != "" && n.Running != n.Desired
	return nil
}

// joinHardware adds the hardware that a node reported, and its classes.
func joinHardware(n *api.Node, hardware map[string]fleet.Hardware, classes []fleet.Class) {
	h, ok := hardware[n.Name]
	if !ok {
		return
	}
	n.Hardware = &h
	for _, c := range fleet.ClassesOf(h, classes) {
		n.Classes = append(n.Classes, c.Name)
	}
}

// Boot converts a boot in a state for the API. A boot without events has just begun.
func Boot(b registry.Boot, p registry.Progress, state trace.State) api.Boot {
	v := api.Boot{
		ID: b.ID, Node: b.Node, MAC: b.MAC, Started: b.Started, Updated: p.Updated, State: state, Stage: p.Stage,
		Elapsed: p.Elapsed(), Failure: p.Failure, Hint: p.Hint, Version: b.Version, Bytes: p.Bytes,
	}
	if p.State == "" {
		v.State, v.Stage, v.Updated = trace.Booting, trace.DHCP, b.Started
	}
	return v
}
