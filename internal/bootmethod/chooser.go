package bootmethod

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
	"pando/internal/versions"
)

// Chooser chooses the method by which a node gets to its next boot.
type Chooser struct {
	registry *registry.Registry
	store    *store.Dir
	versions *versions.Cache
	release  string
	next     func(context.Context, fleet.Node) (Next, error)

	mu      sync.Mutex
	systemd map[fleet.Digest]int // cache: the release of systemd in each version
}

// Next is what the next boot of a node runs.
type Next struct {
	Group    fleet.Group // with the node's overrides
	Version  fleet.Digest
	Manifest image.Manifest
	Args     []string // kernel arguments
}

// New returns a Chooser. next returns what a node's next boot runs. release is the release of the agent that the next
// boot gets.
func New(
	reg *registry.Registry,
	s *store.Dir,
	v *versions.Cache,
	release string,
	next func(context.Context, fleet.Node) (Next, error),
) *Chooser {
	return &Chooser{registry: reg, store: s, versions: v, release: release, next: next}
}

// Choose returns the method for a node that runs boot b, and the reason. ask is the requested method.
func (m *Chooser) Choose(
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

// change returns what differs between what a node runs and what its next boot gets.
func (m *Chooser) change(ctx context.Context, n fleet.Node, b registry.Boot) (fleet.Change, error) {
	var c fleet.Change
	p, err := m.next(ctx, n)
	if err != nil {
		return c, err
	}
	progress, err := m.registry.Progress(ctx, b.ID)
	if err != nil {
		return c, err
	}
	view := api.Node{Node: n}
	if err := fleetview.AddStatus(&view, b, progress[b.ID]); err != nil {
		return c, err
	}
	runs := cmp.Or(view.Running, b.Version)
	was, err := m.versions.Manifest(runs)
	if err != nil {
		return c, err
	}
	args, told, err := Args(ctx, m.registry, b.ID)
	if err != nil {
		return c, err
	}
	c.Architecture = p.Manifest.Architecture
	c.Kernel = was.Kernel.Object != p.Manifest.Kernel.Object || !SameDrivers(was, p.Manifest)
	c.Args = !told || !slices.Equal(args, p.Args)
	c.Running, c.Next = m.systemdOf(runs), m.systemdOf(p.Version)
	c.Keeps, c.Cache = keptOf(p.Group), fleet.ValueOf(p.Group.Cache) == fleet.CacheDisk
	c.Agent = view.Status == nil || view.Status.Release != m.release
	return c, nil
}

// SameDrivers reports whether two versions have the same kernel modules.
func SameDrivers(a, b image.Manifest) bool {
	return slices.EqualFunc(a.Drivers, b.Drivers, func(a, b image.Driver) bool { return a.Object == b.Object })
}

// keptOf returns what the nodes of a group have that a soft reboot cannot hand over, "" for nothing.
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

// systemdOf returns the release of systemd in a version by its package list, 0 if the list does not have it.
func (m *Chooser) systemdOf(v fleet.Digest) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.systemd[v]; ok {
		return n
	}
	kept, err := m.store.GetVersion(v)
	if err != nil {
		return 0 // the version was deleted
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

// Args returns the kernel arguments of a boot. known is false if they are not on record.
func Args(ctx context.Context, reg *registry.Registry, id fleet.BootID) (args []string, known bool, err error) {
	events, err := reg.Events(ctx, registry.EventFilter{Boot: id})
	for _, e := range events {
		if text, ok := e.Attrs[trace.AttrArgs]; ok && e.Stage == trace.Script {
			args, known = strings.Fields(text), true
		}
	}
	return args, known, err
}

// Command returns the command that makes a node reboot by a method, and its description for people.
func Command(m fleet.BootMethod) (kind api.NodeCommandKind, did string) {
	switch m {
	case fleet.MethodSoftReboot:
		return api.SoftRebootNode, "asked to go on with the kernel that runs"
	case fleet.MethodKexec:
		return api.KexecNode, "asked to start its next kernel itself"
	}
	return api.RebootNode, "asked to reboot"
}
