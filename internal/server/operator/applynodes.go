package operator

import (
	"cmp"
	"net/netip"
	"slices"

	"pando/internal/api"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
)

// nodeChange is a node before and after.
type nodeChange struct{ was, is fleet.Node }

// nodes deletes, changes and creates nodes. All changed nodes give up MACs and addresses before any node takes one, so
// that two nodes can swap theirs.
func (a *application) nodes() error {
	all, err := a.tx.Nodes()
	if err != nil {
		return err
	}
	known := make(map[string]fleet.Node, len(all))
	for _, n := range all {
		known[n.Name] = n
	}
	changes, fresh, err := a.nodeChanges(known)
	if err != nil {
		return err
	}
	if err := a.pruneNodes(all); err != nil {
		return err
	}
	for _, t := range changes {
		if err := about("node", t.is.Name, a.release(t)); err != nil {
			return err
		}
	}
	for _, t := range changes {
		a.step("node", t.is.Name, api.Alters, nodeDiff(t.was, t.is))
		err := a.checkRefs(t.was, t.is)
		if err == nil {
			err = discovery.Put(a.tx, t.was, t.is)
		}
		if err != nil {
			return about("node", t.is.Name, err)
		}
	}
	for _, n := range fresh {
		a.step("node", n.Name, api.Creates, newNodeFields(n))
		err := a.checkRefs(fleet.Node{}, n)
		if err == nil {
			_, err = discovery.Declare(a.tx, n)
		}
		if err != nil {
			return about("node", n.Name, err)
		}
	}
	return nil
}

// nodeChanges returns the declared nodes that change, and those that do not exist yet.
func (a *application) nodeChanges(known map[string]fleet.Node) (changes []nodeChange, fresh []fleet.Node, err error) {
	named := make(map[string]bool, len(a.req.Nodes))
	for _, d := range a.req.Nodes {
		if named[d.Name] {
			return nil, nil, duplicate(d.Name)
		}
		named[d.Name] = true
		was, there := known[d.Name]
		if !there {
			was = fleet.Node{Name: d.Name, State: fleet.Adopted, Group: fleet.DefaultGroup, Created: a.at}
		}
		is, err := declaredNode(cloneNode(was), d)
		if err == nil && !there && len(is.MACs) == 0 && is.Serial == "" {
			err = httpapi.BadRequest(errNoMachine.Error(), "give mac or serial")
		}
		if err == nil && fieldsOf(d)(fleet.SettingImage) {
			var stays string
			is.Version, is.Follow, stays, err = fleetview.PinDeclared(a.tx, d.Version, d.Follow, was.Version)
			if stays != "" {
				a.note("node " + d.Name + " " + stays + ": pando node set " + d.Name + " --image brings it")
			}
		}
		switch {
		case err != nil:
			return nil, nil, about("node", d.Name, err)
		case !there:
			fresh = append(fresh, is)
		case len(nodeDiff(was, is)) > 0:
			changes = append(changes, nodeChange{was, is})
		}
	}
	return changes, fresh, nil
}

// release removes the MACs and the address that a node has now and will not keep.
func (a *application) release(t nodeChange) error {
	n := cloneNode(t.was)
	n.MACs = slices.DeleteFunc(n.MACs, func(m fleet.MAC) bool { return !slices.Contains(t.is.MACs, m) })
	if t.is.Address != t.was.Address {
		n.Address = netip.Addr{}
	}
	if len(n.MACs) == len(t.was.MACs) && n.Address == t.was.Address {
		return nil
	}
	return a.tx.PutNode(n.Name, n)
}

// checkRefs checks a node's address, image and extensions if they are new.
func (a *application) checkRefs(was, is fleet.Node) error {
	return cmp.Or(a.addresses.check(was, is), a.extensions.ofNode(a.tx, was, is))
}

// pruneNodes deletes nodes that are owned and not declared.
func (a *application) pruneNodes(all []fleet.Node) error {
	if !a.req.Prune || a.req.Owns.Nodes == "" {
		return nil
	}
	set, err := fleet.ParseSet(a.req.Owns.Nodes)
	if err != nil {
		return httpapi.Invalid(err)
	}
	named := make(map[string]bool, len(a.req.Nodes))
	for _, d := range a.req.Nodes {
		named[d.Name] = true
	}
	for _, n := range all {
		if named[n.Name] || n.State != fleet.Adopted || !set.Match(n) {
			continue
		}
		a.step("node", n.Name, api.Deletes, nil)
		if err := retire(a.tx, a.data, n, a.at); err != nil {
			return about("node", n.Name, err)
		}
	}
	return nil
}
