package fleetview

import (
	"cmp"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// Desired returns a function that returns the version of a node's next boot, "" if its image does not resolve.
func Desired(tx *registry.Tx) (func(fleet.Node) fleet.Digest, error) {
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
			// An image that does not resolve is no error here: the next boot reports it.
			d, _ = tx.Resolve(ref)
			known[ref] = d
		}
		return d
	}, nil
}

// Changed returns the names of the nodes whose next boot gets another version than before.
func Changed(tx *registry.Tx, before map[string]fleet.Digest) ([]string, error) {
	after, err := DesiredAll(tx)
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

// DesiredAll returns, by node name, the version that each node's next boot gets now.
func DesiredAll(tx *registry.Tx) (map[string]fleet.Digest, error) {
	want, err := Desired(tx)
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
