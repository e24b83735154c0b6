package operator

import (
	"cmp"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/versions"
)

// extensions decides which extensions nodes get, and refuses extensions that do not fit their image.
type extensions struct{ versions *versions.Cache }

// ofGroup returns an error if the extensions of a group, or of one of its nodes, do not all fit the image.
func (e extensions) ofGroup(tx *registry.Tx, g fleet.Group, n fleet.Node) error {
	g = n.Settings.Of(g)
	return e.versions.GoTogether(tx, cmp.Or(n.Version, g.Image), g.ExtensionList())
}

// ofNode does the same check for a node whose image, group or extensions change. A node without an image and extensions
// of its own needs none.
func (e extensions) ofNode(tx *registry.Tx, was, is fleet.Node) error {
	if is.State != fleet.Adopted ||
		was.Version == is.Version && was.Group == is.Group && slices.Equal(was.ExtensionList(), is.ExtensionList()) {
		return nil
	}
	if is.Version == "" && is.Extensions == nil {
		return nil // the node has what its group has
	}
	g, err := tx.Group(cmp.Or(is.Group, fleet.DefaultGroup))
	if fleetview.Absent(err) {
		return nil // another check refuses a missing group
	}
	if err != nil {
		return err
	}
	return e.ofGroup(tx, g, is)
}

// show adds to n the extensions that it should have over what it runs, or over its next boot's image if it does not
// run.
func (e extensions) show(tx *registry.Tx, n *api.Node) error {
	g, err := tx.Group(n.Group)
	if err != nil {
		return err
	}
	refs, base := n.Settings.Of(g).ExtensionList(), cmp.Or(n.Running, n.Desired)
	if base == "" {
		return nil
	}
	var problems []error
	n.Over, problems = e.versions.Over(tx, refs, base)
	for _, p := range problems {
		n.OverProblems = append(n.OverProblems, p.Error())
	}
	return nil
}

// diff returns the extensions that a node would get at its next boot, and those that it would lose.
func (e extensions) diff(tx *registry.Tx, n api.Node) (gets, loses []string, err error) {
	g, err := tx.Group(n.Group)
	if err != nil || n.Desired == "" || n.Running == "" {
		return nil, nil, err
	}
	want, _ := e.versions.Over(tx, n.Settings.Of(g).ExtensionList(), n.Desired)
	var has []fleet.Extension
	if n.Status != nil {
		has = n.Status.Extensions
	}
	for _, x := range fleet.Lacking(want, has) {
		gets = append(gets, x.Short())
	}
	for _, x := range fleet.Lacking(has, want) {
		loses = append(loses, x.Short())
	}
	return gets, loses, nil
}
