package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// nodeViews joins nodes with what they should run and with their latest boots.
func (o *operator) nodeViews(ctx context.Context, tx *registry.Tx, nodes []fleet.Node) ([]api.Node, error) {
	want, err := desired(tx)
	if err != nil {
		return nil, err
	}
	boots, err := tx.LatestBoots(namesOf(nodes)...)
	if err != nil {
		return nil, err
	}
	ids := make([]fleet.BootID, 0, len(nodes))
	for _, n := range nodes {
		if b, ok := boots[n.Name]; ok {
			ids = append(ids, b.ID)
		}
	}
	progress, err := o.reg.Progress(ctx, ids...)
	if err != nil {
		return nil, err
	}
	hardware, err := tx.Hardware(namesOf(nodes)...)
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
		out[i].Seen = o.heard.Seen(n)
		b, ok := boots[n.Name]
		if !ok {
			continue
		}
		if err := joinBoot(&out[i], b, progress[b.ID]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// joinBoot adds a node's latest boot to what is shown of it.
func joinBoot(n *api.Node, b registry.Boot, p registry.Progress) error {
	view := bootView(b, p)
	n.Boot = &view
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

// joinHardware adds what a node reported of itself, and the classes that follow from it.
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

// bootView is a boot in one line. A boot without events has only begun.
func bootView(b registry.Boot, p registry.Progress) api.Boot {
	v := api.Boot{
		ID: b.ID, Node: b.Node, MAC: b.MAC, Started: b.Started, Updated: p.Updated, State: p.State, Stage: p.Stage,
		Elapsed: p.Elapsed(), Failure: p.Failure, Hint: p.Hint, Version: b.Version, Bytes: p.Bytes,
	}
	if v.State == "" {
		v.State, v.Stage, v.Updated = trace.Booting, trace.DHCP, b.Started
	}
	return v
}

// desired returns the function from a node to the version that its next boot gets, "" where nothing resolves.
func desired(tx *registry.Tx) (func(fleet.Node) fleet.Digest, error) {
	groups, err := tx.Groups()
	if err != nil {
		return nil, err
	}
	image := make(map[string]fleet.Ref, len(groups))
	for _, g := range groups {
		image[g.Name] = g.Image
	}
	targets, err := tx.Targets()
	if err != nil {
		return nil, err
	}
	known := map[fleet.Ref]fleet.Digest{"": ""}
	return func(n fleet.Node) fleet.Digest {
		ref := n.Version
		if ref == "" {
			ref = cmp.Or(targets[n.Name].Image, image[n.Group])
		}
		d, ok := known[ref]
		if !ok {
			// What does not resolve is shown as nothing: the boot says why, when there is one.
			d, _ = tx.Resolve(ref)
			known[ref] = d
		}
		return d
	}, nil
}

// differ returns the names of the nodes whose next boot gets another version than before.
func differ(tx *registry.Tx, before map[string]fleet.Digest) ([]string, error) {
	after, err := desiredAll(tx)
	if err != nil {
		return nil, err
	}
	nodes, err := tx.Nodes()
	out := []string{}
	for _, n := range nodes {
		if n.State == fleet.Adopted && after[n.Name] != before[n.Name] {
			out = append(out, n.Name)
		}
	}
	return out, err
}

// desiredAll is what every node's next boot gets now.
func desiredAll(tx *registry.Tx) (map[string]fleet.Digest, error) {
	want, err := desired(tx)
	if err != nil {
		return nil, err
	}
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	out := make(map[string]fleet.Digest, len(nodes))
	for _, n := range nodes {
		out[n.Name] = want(n)
	}
	return out, nil
}

// absent makes ErrNotFound an answer of its own kind, for look-ups that may find nothing.
func absent(err error) bool { return errors.Is(err, registry.ErrNotFound) }

func namesOf(nodes []fleet.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
