package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
	"pando/internal/versions"
)

// methods tells by which method nodes come to their next boot.
type methods struct {
	registry *registry.Registry
	store    *store.Dir
	versions *versions.Cache
	release  string
	plan     func(context.Context, fleet.Node, fleet.Hardware) (bootplan.Plan, error)

	mu      sync.Mutex
	systemd map[fleet.Digest]int // of versions that were looked at
}

// choose is the method for a node that runs boot b, when m was asked for, and why it is this one.
func (m *methods) choose(
	ctx context.Context,
	ask fleet.BootMethod,
	n fleet.Node,
	b registry.Boot,
) (fleet.BootMethod, string, error) {
	if ask = ask.Effective(); ask == fleet.MethodReboot || ask == fleet.MethodKexec {
		is, why := ask.Choose(fleet.Change{})
		return is, why, nil
	}
	c, err := m.change(ctx, n, b)
	if err != nil {
		return "", "", err
	}
	is, why := ask.Choose(c)
	return is, why, nil
}

// change is what differs between what a node runs and what its next boot gets.
func (m *methods) change(ctx context.Context, n fleet.Node, b registry.Boot) (fleet.Change, error) {
	var c fleet.Change
	p, err := m.plan(ctx, n, fleet.Hardware{})
	if err != nil {
		return c, err
	}
	progress, err := m.registry.Progress(ctx, b.ID)
	if err != nil {
		return c, err
	}
	view := api.Node{Node: n}
	if err := fleetview.AddBoot(&view, b, progress[b.ID]); err != nil {
		return c, err
	}
	runs := cmp.Or(view.Running, b.Version)
	was, err := m.versions.Manifest(runs)
	if err != nil {
		return c, err
	}
	args, told, err := bootArgs(ctx, m.registry, b.ID)
	if err != nil {
		return c, err
	}
	c.Architecture = p.Manifest.Architecture
	c.Kernel = was.Kernel.Object != p.Manifest.Kernel.Object || !sameDrivers(was, p.Manifest)
	c.Args = !told || !slices.Equal(args, p.KernelArgs())
	c.Running, c.Next = m.systemdOf(runs), m.systemdOf(p.Version)
	c.Keeps, c.Cache = keptOf(p.Group), fleet.ValueOf(p.Group.Cache) == fleet.CacheDisk
	c.Agent = view.Status == nil || view.Status.Release != m.release
	return c, nil
}

func sameDrivers(a, b image.Manifest) bool {
	return slices.EqualFunc(a.Drivers, b.Drivers, func(a, b image.Driver) bool { return a.Object == b.Object })
}

// keptOf is what a group's nodes have that a soft reboot does not hand over, in words; "" for nothing.
func keptOf(g fleet.Group) string {
	switch {
	case len(g.PersistList()) > 0 && g.StateOn != nil:
		kind, _, _ := strings.Cut(*g.StateOn, " ")
		return "node state (" + kind + ")"
	case g.Layer().Kind != fleet.LayerMemory:
		return "a write layer on " + string(g.Layer().Kind)
	case g.SwapSpace().Kind != fleet.SwapNone:
		return "swap space"
	case len(g.ExtensionList()) > 0:
		return "extensions"
	}
	return ""
}

// systemdOf is the number of the systemd in a version, as its list of packages says; 0: it does not.
func (m *methods) systemdOf(v fleet.Digest) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.systemd[v]; ok {
		return n
	}
	kept, err := m.store.GetVersion(v)
	if err != nil {
		return 0 // gone: its nodes boot as if nothing was known
	}
	p, err := image.DecodeProvenance(kept.Provenance)
	if err != nil {
		return 0
	}
	if m.systemd == nil || len(m.systemd) >= versions.MaxVersions {
		m.systemd = map[fleet.Digest]int{}
	}
	i := slices.IndexFunc(p.Packages, func(p image.Package) bool { return p.Name == "systemd" })
	if i >= 0 {
		m.systemd[v] = fleet.SystemdOf(p.Packages[i].Version)
	}
	return m.systemd[v]
}

// bootArgs are the kernel arguments that a boot was given, if that is on record.
func bootArgs(ctx context.Context, reg *registry.Registry, id fleet.BootID) (args []string, told bool, err error) {
	events, err := reg.Events(ctx, registry.EventFilter{Boot: id})
	for _, e := range events {
		if text, ok := e.Attrs[bootlog.AttrArgs]; ok && e.Stage == trace.Script {
			args, told = strings.Fields(text), true
		}
	}
	return args, told, err
}

// errandOf is what a node is asked by for a method, and what is told of it.
func errandOf(m fleet.BootMethod) (kind api.ErrandKind, did string) {
	switch m {
	case fleet.MethodSoftReboot:
		return api.SoftRebootNode, "asked to go on with the kernel that runs"
	case fleet.MethodKexec:
		return api.KexecNode, "asked to start its next kernel itself"
	}
	return api.RebootNode, "asked to reboot"
}

// errNotSoft is a soft reboot that was asked for by name and does not fit.
var errNotSoft = errors.New("its next boot needs another method")
