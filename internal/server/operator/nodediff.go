package operator

import (
	"context"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/bootmethod"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/store"
)

// diffAPI shows what a reboot would change.
type diffAPI struct {
	reg        *registry.Registry
	views      fleetview.Nodes
	store      *store.Dir
	renderer   *nodeconfig.Renderer
	extensions extensions
	methods    *bootmethod.Chooser
	compare    func(context.Context, *api.ImageDiff) error // compares two versions
}

// diffNodes answers GET /v1/diff: what a reboot would change.
func (a *diffAPI) diffNodes(r *http.Request) (any, error) {
	type what struct {
		api.Node
		args        []string
		gets, loses []string      // extensions
		boot        registry.Boot // the latest boot; zero if there is none
	}
	var nodes []what
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		selected, err := fleetview.SelectNodes(tx, r.URL.Query().Get("select"), true)
		if err != nil {
			return err
		}
		views, err := a.views.Views(r.Context(), tx, selected)
		if err != nil {
			return err
		}
		boots, err := tx.LatestBoots(fleetview.Names(selected)...)
		if err != nil {
			return err
		}
		for _, v := range views {
			args, err := nextArgs(tx, v.Node)
			if err != nil {
				return err
			}
			b := boots[v.Name]
			if v.ConfigOld, v.ConfigGone, err = a.renderer.Outdated(tx, v.Node, b); err != nil {
				return err
			}
			w := what{Node: v, args: args, boot: b}
			if w.gets, w.loses, err = a.extensions.diff(tx, v); err != nil {
				return err
			}
			nodes = append(nodes, w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := api.NodeDiffList{Nodes: []api.NodeDiff{}}
	known := map[[2]fleet.Digest]*api.ImageDiff{}
	for _, n := range nodes {
		d, err := a.nodeDiff(r.Context(), n.Node, n.boot, n.args, known)
		if err != nil {
			return nil, err
		}
		d.ExtensionsNew, d.ExtensionsGone = n.gets, n.loses
		d.Changes = d.Changes || len(n.gets)+len(n.loses) > 0
		out.Nodes = append(out.Nodes, d)
	}
	return out, nil
}

// nextArgs returns the kernel arguments of a node's next boot that do not come from its image.
func nextArgs(tx *registry.Tx, n fleet.Node) ([]string, error) {
	p := bootplan.Plan{Node: n}
	var err error
	if p.Group, err = tx.Group(n.Group); err != nil {
		return nil, err
	}
	p.Classes, err = bootplan.HardwareClasses(tx, n, fleet.Hardware{})
	return p.KernelArgs(), err
}

// nodeDiff compares what a node runs with what its next boot gets. known caches the comparisons of versions.
func (a *diffAPI) nodeDiff(
	ctx context.Context,
	n api.Node,
	b registry.Boot,
	own []string,
	known map[[2]fleet.Digest]*api.ImageDiff,
) (api.NodeDiff, error) {
	d := api.NodeDiff{
		Node:       n.Name,
		Running:    n.Running,
		Desired:    n.Desired,
		ConfigOld:  n.ConfigOld,
		ConfigGone: n.ConfigGone,
	}
	if n.Running == "" || n.Desired == "" {
		return d, nil
	}
	is, err := a.store.Manifest(n.Desired)
	if err != nil {
		return d, err
	}
	had, told, err := bootmethod.Args(ctx, a.reg, n.Boot.ID)
	if err != nil {
		return d, err
	}
	if gets := slices.Concat(is.CommandLine, own); told {
		d.ArgsGone, d.ArgsNew = lacking(had, gets), lacking(gets, had)
	}
	if n.Drift {
		was, err := a.store.Manifest(n.Running)
		if err != nil {
			return d, err
		}
		if was.Kernel.Object != is.Kernel.Object {
			d.KernelWas, d.KernelIs = was.Kernel.Release, is.Kernel.Release
		}
		d.Drivers, d.Root = !bootmethod.SameDrivers(was, is), was.Root.Index != is.Root.Index
		key := [2]fleet.Digest{n.Running, n.Desired}
		if known[key] == nil && d.Root {
			c := api.ImageDiff{FromHas: n.Running, ToHas: n.Desired}
			if err := a.compare(ctx, &c); err != nil {
				d.Problem = err.Error() // a version is damaged; the other fields are shown all the same
			} else {
				known[key] = &c
			}
		}
		if c := known[key]; c != nil {
			d.Packages, d.RootFetches = c.Packages, c.Root
		}
	}
	d.Changes = n.Drift || len(d.ArgsGone)+len(d.ArgsNew)+len(d.ConfigOld)+len(d.ConfigGone) > 0
	a.nodeMethod(ctx, n.Node, b, &d)
	return d, nil
}

// nodeMethod sets the boot method that the server would choose for a node's next boot by itself.
func (a *diffAPI) nodeMethod(ctx context.Context, n fleet.Node, b registry.Boot, d *api.NodeDiff) {
	var err error
	if d.Method, d.MethodWhy, err = a.methods.Choose(ctx, fleet.MethodAuto, n, b); err != nil && d.Problem == "" {
		d.Problem = err.Error()
	}
}

func lacking(list, other []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(other, s) {
			out = append(out, s)
		}
	}
	return out
}
