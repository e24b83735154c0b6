package operator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/store"
)

// nodeAPI shows and changes nodes.
type nodeAPI struct {
	reg         *registry.Registry
	views       fleetview.Nodes
	store       *store.Dir
	renderer    *nodeconfig.Renderer
	extensions  extensions
	addresses   addresses
	waker       *nodecommand.Waker
	data        NodeData
	rebootAfter time.Duration // for nodes whose group does not set it
	now         func() time.Time
}

func (a *nodeAPI) listNodes(r *http.Request) (any, error) {
	var nodes []fleet.Node
	out := api.NodeList{Nodes: []api.Node{}}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		if nodes, err = fleetview.SelectNodes(tx, r.URL.Query().Get("select"), true); err != nil {
			return err
		}
		out.Nodes, err = a.views.Views(r.Context(), tx, nodes)
		return err
	})
	return out, err
}

func (a *nodeAPI) showNode(r *http.Request) (any, error) {
	var out api.Node
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err != nil {
			return err
		}
		views, err := a.views.Views(r.Context(), tx, []fleet.Node{n})
		if err != nil {
			return err
		}
		out = views[0]
		b, err := fleetview.LatestBoot(tx, n)
		if err != nil {
			return err
		}
		if out.ConfigOld, out.ConfigGone, err = a.renderer.Outdated(tx, n, b); err != nil {
			return err
		}
		if out.Proof = b.Proof; !b.Session.IsZero() {
			c, err := nodeconfig.Read(tx, n, b)
			if err != nil {
				return err
			}
			out.Withheld = c.Claim().Withheld()
		}
		if err := a.extensions.show(tx, &out); err != nil {
			return err
		}
		out.Effective, err = a.effective(tx, out)
		return err
	})
	return out, err
}

// effective returns a node's settings and where each comes from.
func (a *nodeAPI) effective(tx *registry.Tx, n api.Node) ([]fleet.Value, error) {
	g, err := tx.Group(n.Group)
	if err != nil {
		return nil, err
	}
	l := fleet.Layers{Node: n.Node, Group: g, RebootAfter: a.rebootAfter}
	if n.Hardware != nil {
		l.Hardware = *n.Hardware
	}
	if l.Classes, err = tx.Classes(); err != nil {
		return nil, err
	}
	target, err := tx.Target(n.Name)
	if err != nil {
		return nil, err
	}
	l.Rollout, l.Target = target.Rollout, target.Image
	if n.Desired != "" {
		// A manifest that cannot be read is no error here: the next boot reports it.
		if m, err := a.store.Manifest(n.Desired); err == nil {
			l.ImageArgs = m.CommandLine
		}
	}
	return fleet.Effective(l), nil
}

func (a *nodeAPI) createNode(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeCreate](r)
	if err != nil {
		return nil, err
	}
	n := fleet.Node{
		Name: req.Name, MACs: req.MACs, State: fleet.Adopted, Group: req.Group, Labels: req.Labels,
		Version: req.Version, Follow: req.Follow, KernelArgs: req.KernelArgs, Serial: req.Serial,
		Settings: req.Settings, Created: a.now(),
	}
	if n.Group == "" {
		n.Group = fleet.DefaultGroup
	}
	if n.Address, err = address(req.Address); err != nil {
		return nil, err
	}
	if len(n.MACs) == 0 && n.Serial == "" {
		return nil, httpapi.BadRequest(
			"node "+n.Name+": no MAC address and no serial number: the server could never recognise it",
			"name its NIC with --mac, or the machine with --serial",
		)
	}
	if err := cmp.Or(httpapi.Invalid(n.Validate()), knownZone(n.Settings),
		a.addresses.check(fleet.Node{}, n)); err != nil {
		return nil, err
	}
	var out []api.Node
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		if n.Version, err = fleetview.Pin(tx, n.Version, n.Follow); err != nil {
			return err
		}
		if err := a.extensions.ofNode(tx, fleet.Node{}, n); err != nil {
			return err
		}
		if n, err = discovery.Declare(tx, n); err != nil {
			return err
		}
		out, err = a.views.Views(r.Context(), tx, []fleet.Node{n})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// address parses a fixed address; "" is none.
func address(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, httpapi.BadRequest(fmt.Sprintf("address %q is not an IPv4 address", text), "")
	}
	return a, httpapi.Invalid(fleet.ValidAddress(a))
}

func (a *nodeAPI) setNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeSet](r)
	if err != nil {
		return nil, err
	}
	var was string
	out, err := a.changeNodes(
		r,
		req.Select,
		req.DryRun,
		func(tx *registry.Tx, nodes []fleet.Node) ([]fleet.Node, error) {
			if len(nodes) == 1 {
				was = nodes[0].Name
			}
			if len(nodes) > 1 &&
				(req.Name != nil || req.Address != nil && *req.Address != "" || len(req.AddMACs) > 0 ||
					req.Serial != nil) {
				return nil, httpapi.BadRequest(
					fmt.Sprintf(
						"%d nodes are named: a name, an address, a MAC or a serial number is for one",
						len(nodes),
					),
					"",
				)
			}
			if req, err = pinNodeSet(tx, req); err != nil {
				return nil, err
			}
			for i := range nodes {
				if req.Name != nil { // the node's state stays at its place under the new name
					if err := a.data.RecordPlace(tx, nodes[i]); err != nil {
						return nil, err
					}
				}
				if err := applyNodeSet(&nodes[i], req); err != nil {
					return nil, err
				}
			}
			return nodes, nil
		},
	)
	if err == nil && req.Name != nil && !req.DryRun && was != *req.Name {
		a.data.NodeRenamed(r.Context(), was, *req.Name)
	}
	return out, err
}

// pinNodeSet returns the request with its image resolved to a version as of now.
func pinNodeSet(tx *registry.Tx, req api.NodeSet) (api.NodeSet, error) {
	if req.Version == nil {
		if req.Follow {
			return req, httpapi.BadRequest("no tag to follow is named", "name one as the image, such as lab:stable")
		}
		return req, nil
	}
	ref, err := fleetview.Pin(tx, *req.Version, req.Follow)
	req.Version = &ref
	return req, err
}

// changeNodes changes the selected nodes by fn, all or none, and answers what changed. fn may modify its slice.
func (a *nodeAPI) changeNodes(r *http.Request, selection string, dryRun bool,
	fn func(*registry.Tx, []fleet.Node) ([]fleet.Node, error)) (any, error) {
	var out api.Changes
	var follow []string // nodes whose extensions may have changed
	err := a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		out, follow = api.Changes{DryRun: dryRun, Nodes: []api.Change{}}, nil // the transaction may run again
		before, err := fleetview.SelectNodes(tx, selection, false)
		if err != nil {
			return err
		}
		after := make([]fleet.Node, len(before))
		for i, n := range before {
			after[i] = cloneNode(n)
		}
		if after, err = fn(tx, after); err != nil {
			return err
		}
		for i, n := range after {
			fields := nodeDiff(before[i], n)
			out.Nodes = append(out.Nodes, api.Change{Node: before[i].Name, Fields: fields})
			if len(fields) == 0 {
				continue
			}
			if err := cmp.Or(httpapi.Invalid(n.Validate()), knownZone(n.Settings),
				a.addresses.check(before[i], n), a.extensions.ofNode(tx, before[i], n)); err != nil {
				return err
			}
			if err := discovery.Put(tx, before[i], n); err != nil {
				return err
			}
			if n.Group != before[i].Group || !slices.Equal(n.ExtensionList(), before[i].ExtensionList()) ||
				(n.Extensions == nil) != (before[i].Extensions == nil) {
				follow = append(follow, n.Name)
			}
		}
		return fleetview.OrDryRun(dryRun)
	})
	if err == nil && !dryRun {
		a.waker.Named(r.Context(), follow)
	}
	return out, err
}

func (a *nodeAPI) deleteNodes(r *http.Request) (any, error) {
	q, at := r.URL.Query(), a.now()
	dryRun := q.Get("dry_run") == "true"
	var out api.Changes
	err := a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		out = api.Changes{DryRun: dryRun, Nodes: []api.Change{}}
		nodes, err := fleetview.SelectNodes(tx, q.Get("select"), false)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if err := retire(tx, a.data, n, at); err != nil {
				return err
			}
			out.Nodes = append(out.Nodes, api.Change{Node: n.Name, Fields: []string{"deleted"}})
		}
		return fleetview.OrDryRun(dryRun)
	})
	if err == nil && !dryRun {
		for _, n := range out.Nodes {
			a.data.NodeDeleted(r.Context(), n.Node, at)
		}
	}
	return out, err
}

// retire deletes a node, which frees its name, MACs and addresses. Its state is not passed on to the next node of that
// name.
func retire(tx *registry.Tx, data NodeData, n fleet.Node, at time.Time) error {
	if err := cmp.Or(data.RecordPlace(tx, n), tx.RetireState(n.Name, at)); err != nil {
		return err
	}
	for _, m := range n.MACs {
		if err := tx.DeleteLeasesOf(m, netip.Addr{}); err != nil {
			return err
		}
	}
	return tx.DeleteNode(n.Name)
}

func (a *nodeAPI) adoptNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeAdopt](r)
	if err != nil {
		return nil, err
	}
	return a.changeNodes(r, req.Select, req.DryRun, func(tx *registry.Tx, nodes []fleet.Node) ([]fleet.Node, error) {
		names, err := adoptionNames(tx, req.Name, len(nodes))
		if err != nil {
			return nil, err
		}
		for i := range nodes {
			if nodes[i].State == fleet.Adopted {
				continue
			}
			given := req.Name
			if strings.Contains(given, "[") { // a naming rule is for nodes that have no declared name
				given = ""
			}
			declared, found, err := discovery.Awaited(tx, nodes[i], given)
			if err != nil {
				return nil, err
			}
			if found {
				nodes[i] = discovery.Become(nodes[i], declared)
				continue
			}
			nodes[i].State, nodes[i].Learned = fleet.Adopted, nil // the operator confirms the MACs
			if req.Group != nil {
				nodes[i].Group = *req.Group
			}
			if nodes[i].Name, err = names(); err != nil {
				return nil, err
			}
		}
		return nodes, nil
	})
}

// adoptionNames returns a function that yields names for n nodes to adopt: the given name, or unused names of a naming
// rule.
func adoptionNames(tx *registry.Tx, name string, n int) (func() (string, error), error) {
	if name != "" && !strings.Contains(name, "[") {
		if n > 1 {
			return nil, httpapi.BadRequest(
				fmt.Sprintf("%d nodes are named: one name is for one", n),
				"give a naming rule such as 'pc[001-]'",
			)
		}
		return func() (string, error) { return name, nil }, nil
	}
	if name == "" {
		p, err := tx.Policy()
		if err != nil {
			return nil, err
		}
		name = p.Naming
	}
	rule, err := fleet.ParseNaming(name)
	if err != nil {
		return nil, httpapi.Invalid(err)
	}
	taken, err := tx.NodeNames()
	if err != nil {
		return nil, err
	}
	return func() (string, error) {
		next, err := rule.Next(func(s string) bool { return taken[s] })
		taken[next] = true
		return next, httpapi.Invalid(err)
	}, nil
}

// resetNodes answers POST /v1/nodes/reset: it deletes the recorded TPM keys of nodes.
func (a *nodeAPI) resetNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeSelection](r)
	if err != nil {
		return nil, err
	}
	return a.changeNodes(r, req.Select, req.DryRun, func(_ *registry.Tx, nodes []fleet.Node) ([]fleet.Node, error) {
		for i := range nodes {
			nodes[i].TPMKey = ""
		}
		return nodes, nil
	})
}
