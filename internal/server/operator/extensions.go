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

// extensions says which extensions nodes get, and refuses those that do not go with their image.
type extensions struct{ versions *versions.Cache }

// ofGroup refuses an image and extensions of which the nodes of a group, or one of its nodes, could not be given all.
func (e extensions) ofGroup(tx *registry.Tx, g fleet.Group, n fleet.Node) error {
	g = n.Settings.Of(g)
	return e.versions.GoTogether(tx, cmp.Or(n.Version, g.Image), g.ExtensionList())
}

// ofNode refuses the image and the extensions of a node that become its own, or others.
func (e extensions) ofNode(tx *registry.Tx, was, is fleet.Node) error {
	if is.State != fleet.Adopted ||
		was.Version == is.Version && was.Group == is.Group && slices.Equal(was.ExtensionList(), is.ExtensionList()) {
		return nil
	}
	if is.Version == "" && is.Extensions == nil {
		return nil // it has what its group has
	}
	g, err := tx.Group(cmp.Or(is.Group, fleet.DefaultGroup))
	if fleetview.Absent(err) {
		return nil // which is refused elsewhere
	}
	if err != nil {
		return err
	}
	return e.ofGroup(tx, g, is)
}

// show adds what should be laid over what a node runs, or over its next boot where it does not run.
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

// diff returns the extensions that the next boot of a node gets and it has not, and those that it has and
// would lose.
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
