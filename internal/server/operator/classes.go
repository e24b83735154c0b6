package operator

import (
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// classAPI shows and changes hardware classes.
type classAPI struct{ reg *registry.Registry }

func (a *classAPI) listClasses(r *http.Request) (any, error) {
	out := api.ClassList{}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		classes, err := tx.Classes()
		if err != nil {
			return err
		}
		out.Classes, err = classViews(tx, classes)
		return err
	})
	return out, err
}

// classViews returns classes with the nodes that belong to them.
func classViews(tx *registry.Tx, classes []fleet.Class) ([]api.Class, error) {
	hardware, err := tx.Hardware()
	if err != nil {
		return nil, err
	}
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	out := make([]api.Class, len(classes))
	for i, c := range classes {
		out[i] = api.Class{Class: c, Nodes: []string{}}
		for _, n := range nodes {
			if n.State == fleet.Adopted && c.Match.Covers(hardware[n.Name]) {
				out[i].Nodes = append(out[i].Nodes, n.Name)
			}
		}
	}
	return out, nil
}

func (a *classAPI) showClass(r *http.Request) (any, error) {
	var out []api.Class
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		c, err := tx.Class(r.PathValue("name"))
		if err != nil {
			return err
		}
		out, err = classViews(tx, []fleet.Class{c})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (a *classAPI) createClass(r *http.Request) (any, error) {
	c, err := httpapi.Body[fleet.Class](r)
	if err != nil {
		return nil, err
	}
	if err := httpapi.Invalid(c.Validate()); err != nil {
		return nil, err
	}
	if err = a.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.CreateClass(c) }); err != nil {
		return nil, err
	}
	r.SetPathValue("name", c.Name)
	return a.showClass(r)
}

func (a *classAPI) setClass(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.ClassSet](r)
	if err != nil {
		return nil, err
	}
	var out api.ClassChange
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		out = api.ClassChange{DryRun: req.DryRun}
		was, err := tx.Class(r.PathValue("name"))
		if err != nil {
			return err
		}
		is := was
		if req.Match != nil {
			is.Match = *req.Match
		}
		if req.KernelArgs != nil {
			is.KernelArgs = *req.KernelArgs
		}
		if err := httpapi.Invalid(is.Validate()); err != nil {
			return err
		}
		out.Fields = classDiff(was, is)
		if out.Nodes, err = classAffected(tx, was, is); err != nil {
			return err
		}
		if err := tx.PutClass(is); err != nil {
			return err
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	return out, err
}

// classAffected returns the nodes whose kernel arguments change when class `was` becomes `is`.
func classAffected(tx *registry.Tx, was, is fleet.Class) ([]string, error) {
	views, err := classViews(tx, []fleet.Class{was, is})
	if err != nil {
		return nil, err
	}
	before, after := views[0].Nodes, views[1].Nodes
	if !slices.Equal(was.KernelArgs, is.KernelArgs) {
		all := slices.Concat(before, after)
		slices.SortFunc(all, fleet.CompareNames)
		return slices.Compact(all), nil
	}
	out := []string{}
	if len(is.KernelArgs) > 0 {
		out = append(out, only(before, after)...)
		out = append(out, only(after, before)...)
		slices.SortFunc(out, fleet.CompareNames)
	}
	return out, nil
}

// only returns the names that are in a and not in b.
func only(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(n string) bool { return slices.Contains(b, n) })
}

func classDiff(was, is fleet.Class) []string {
	d := diff{}
	for _, f := range []struct {
		name    string
		was, is []string
	}{
		{"vendor", was.Match.Vendor, is.Match.Vendor}, {"product", was.Match.Product, is.Match.Product},
		{"CPU", was.Match.CPU, is.Match.CPU}, {"architecture", was.Match.Architecture, is.Match.Architecture},
		{"PCI", was.Match.PCI, is.Match.PCI},
	} {
		d.add(f.name, strings.Join(f.was, ", "), strings.Join(f.is, ", "))
	}
	d.add("kernel args", strings.Join(was.KernelArgs, " "), strings.Join(is.KernelArgs, " "))
	return d
}

func (a *classAPI) deleteClass(r *http.Request) (any, error) {
	return nil, a.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteClass(r.PathValue("name")) })
}
