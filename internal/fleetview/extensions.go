package fleetview

import (
	"pando/internal/fleet"
	"pando/internal/registry"
	"slices"
)

// Extensions returns the declared extensions of each node that has some, by the node's name.
func Extensions(tx *registry.Tx) (map[string][]string, error) {
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

// ExtensionsChanged returns the names of nodes whose declared extensions differ from before.
func ExtensionsChanged(tx *registry.Tx, before map[string][]string) ([]string, error) {
	now, err := Extensions(tx)
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

// NodesWithExtension returns the names of nodes that have an extension by name, with any tag. The tag does not matter,
// because a node may get a version that the tag does not point at.
func NodesWithExtension(tx *registry.Tx, image string) ([]string, error) {
	now, err := Extensions(tx)
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
