package operator

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/registry"
)

// groupAPI shows and changes groups.
type groupAPI struct {
	reg        *registry.Registry
	extensions extensions
	waker      *nodecommand.Waker
}

func (a *groupAPI) listGroups(r *http.Request) (any, error) {
	out := api.GroupList{}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		groups, err := tx.Groups()
		if err != nil {
			return err
		}
		out.Groups, err = fleetview.Groups(tx, groups)
		return err
	})
	return out, err
}

func (a *groupAPI) showGroup(r *http.Request) (any, error) {
	var out []api.Group
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		g, err := tx.Group(r.PathValue("name"))
		if err != nil {
			return err
		}
		out, err = fleetview.Groups(tx, []fleet.Group{g})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (a *groupAPI) createGroup(r *http.Request) (any, error) {
	g, err := httpapi.Body[fleet.Group](r)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(httpapi.Invalid(g.Validate()), knownZone(g.Settings)); err != nil {
		return nil, err
	}
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		if g.Image, err = fleetview.Pin(tx, g.Image, g.Follow); err != nil {
			return err
		}
		if err := a.extensions.ofGroup(tx, g, fleet.Node{}); err != nil {
			return err
		}
		return tx.CreateGroup(g)
	})
	if err != nil {
		return nil, err
	}
	r.SetPathValue("name", g.Name)
	return a.showGroup(r)
}

func (a *groupAPI) setGroup(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.GroupSet](r)
	if err != nil {
		return nil, err
	}
	var out api.GroupChange
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		out = api.GroupChange{DryRun: req.DryRun}
		was, err := tx.Group(r.PathValue("name"))
		if err != nil {
			return err
		}
		if req.Follow && req.Image == nil {
			return httpapi.BadRequest("no tag to follow is named", "name one as the image, such as lab:stable")
		}
		g := applyGroupSet(was, req)
		if err := cmp.Or(httpapi.Invalid(g.Validate()), knownZone(g.Settings)); err != nil {
			return err
		}
		if req.Image != nil {
			if g.Image, err = fleetview.Pin(tx, g.Image, g.Follow); err != nil {
				return err
			}
		}
		if req.Image != nil || req.Extensions != nil {
			if err := a.extensions.ofGroup(tx, g, fleet.Node{}); err != nil {
				return err
			}
		}
		out.Fields = groupDiff(was, g)
		if out.Nodes, err = affected(tx, was, g, func() error { return tx.PutGroup(g) }); err != nil {
			return err
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	if err == nil && !req.DryRun && req.Extensions != nil {
		a.waker.Nodes(r.Context(), func(n fleet.Node) bool { return n.Group == r.PathValue("name") })
	}
	return out, err
}

// affected changes a group and returns the nodes whose next boot differs: nodes that get another version, or all
// members if another setting changes that nodes are sent.
func affected(tx *registry.Tx, was, is fleet.Group, change func() error) ([]string, error) {
	before, err := fleetview.DesiredAll(tx)
	if err != nil {
		return nil, err
	}
	if err := change(); err != nil {
		return nil, err
	}
	told := slices.ContainsFunc(was.Settings.Diff(is.Settings, ""), func(c fleet.SettingChange) bool {
		return c.Effect != fleet.ByServer
	})
	if !told && slices.Equal(was.KernelArgs, is.KernelArgs) {
		return fleetview.Changed(tx, before)
	}
	nodes, err := tx.Nodes()
	out := []string{}
	for _, n := range nodes {
		if n.Group == is.Name && n.State == fleet.Adopted {
			out = append(out, n.Name)
		}
	}
	return out, err
}

func applyGroupSet(g fleet.Group, req api.GroupSet) fleet.Group {
	if req.Image != nil {
		g.Image, g.Follow = *req.Image, req.Follow
	}
	if req.KernelArgs != nil {
		g.KernelArgs = *req.KernelArgs
	}
	g.Settings.Merge(req.Settings)
	g.Settings = g.Settings.Normal()
	return g
}

func (a *groupAPI) deleteGroup(r *http.Request) (any, error) {
	name := r.PathValue("name")
	return nil, a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		err := tx.DeleteGroup(name)
		if !errors.Is(err, registry.ErrInUse) || name == fleet.DefaultGroup {
			return err
		}
		if live, e := tx.Rollouts(registry.RolloutFilter{Group: name, Live: true}); e != nil || len(live) > 0 {
			return cmp.Or(e, httpapi.WithHint(err, "wait for its end, or abort it: pando rollout abort @"+name))
		}
		return httpapi.WithHint(err, "move them first: pando node set @"+name+" --group "+fleet.DefaultGroup)
	})
}
