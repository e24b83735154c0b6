package server

import (
	"context"
	"slices"

	"pando/internal/fleet"
	"pando/internal/registry"
)

// laid is what nodes should have laid over what they run, as it is declared, by the node's name.
func laid(tx *registry.Tx) (map[string][]string, error) {
	all, err := tx.Groups()
	if err != nil {
		return nil, err
	}
	groups := make(map[string]fleet.Group, len(all))
	for _, g := range all {
		groups[g.Name] = g
	}
	nodes, err := tx.Nodes()
	out := make(map[string][]string, len(nodes))
	for _, n := range nodes {
		if list := n.Settings.Of(groups[n.Group]).ExtensionList(); len(list) > 0 {
			out[n.Name] = list
		}
	}
	return out, err
}

// laidDiffers lists the nodes whose declared extensions are others than before.
func laidDiffers(tx *registry.Tx, before map[string][]string) ([]string, error) {
	now, err := laid(tx)
	var out []string
	for name, list := range now {
		if !slices.Equal(list, before[name]) {
			out = append(out, name)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

// laidBy lists the nodes that have an extension by its name, with whatever tag: where the one that a tag points at
// does not fit, the newest that fits is taken.
func laidBy(tx *registry.Tx, image string) ([]string, error) {
	now, err := laid(tx)
	var out []string
	for name, list := range now {
		if slices.ContainsFunc(list, func(r string) bool {
			is, _, digest, err := fleet.Ref(r).Split()
			return err == nil && is == image && digest == ""
		}) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

// follow has those of some nodes that run look at their extensions now.
func (o *operator) follow(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	pick := make(map[string]bool, len(names))
	for _, n := range names {
		pick[n] = true
	}
	o.nudger.Nodes(ctx, func(n fleet.Node) bool { return pick[n.Name] })
}
