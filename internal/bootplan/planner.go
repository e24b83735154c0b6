package bootplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/versions"
)

// Plan is what the next boot of a node runs.
type Plan struct {
	Node     fleet.Node
	Group    fleet.Group   // with the node's overrides
	Classes  []fleet.Class // the hardware classes that the node belongs to
	Image    fleet.Ref
	Version  fleet.Digest
	Manifest image.Manifest
}

// Programs knows which architectures have a node's program.
type Programs interface {
	// Has returns why nodes of an architecture cannot boot, nil if they can.
	Has(architecture string) error
}

// Planner decides what nodes boot.
type Planner struct {
	registry *registry.Registry
	versions *versions.Cache
	programs Programs
	reboot   time.Duration
}

// New returns a Planner. rebootAfter is when a stuck boot restarts, unless the node's group sets it.
func New(reg *registry.Registry, v *versions.Cache, p Programs, rebootAfter time.Duration) *Planner {
	return &Planner{registry: reg, versions: v, programs: p, reboot: rebootAfter}
}

// Plan decides what a node boots: its own version if it has one, else that of a rollout, else its group's. told is the
// hardware as the boot loader reports it; of a node that never booted nothing else is known.
func (s *Planner) Plan(ctx context.Context, node fleet.Node, told fleet.Hardware) (Plan, error) {
	p := Plan{Node: node}
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if p.Group, err = tx.Group(node.Group); err != nil {
			return err
		}
		p.Group = node.Settings.Of(p.Group)
		if p.Classes, err = HardwareClasses(tx, node, told); err != nil {
			return err
		}
		if p.Image = node.Version; p.Image == "" {
			target, err := tx.Target(node.Name)
			if err != nil {
				return err
			}
			p.Image = cmp.Or(target.Image, p.Group.Image)
		}
		if p.Image == "" {
			return hint.With(fmt.Errorf("group %s has no image", node.Group),
				fmt.Sprintf("build one with `pando image build`, then `pando group set %s --image NAME`", node.Group))
		}
		p.Version, err = tx.Resolve(p.Image)
		if errors.Is(err, registry.ErrNotFound) {
			return hint.With(fmt.Errorf("image %s: %w", p.Image, err),
				fmt.Sprintf(
					"`pando image list` shows what there is; set another with `pando group set %s --image NAME`",
					node.Group,
				))
		}
		return err
	})
	if err != nil {
		return p, err
	}
	if p.Manifest, err = s.versions.Bootable(p.Version); err != nil {
		return p, err
	}
	if err := sameArchitecture(p, told); err != nil {
		return p, err
	}
	return p, s.programs.Has(p.Manifest.Architecture)
}

// sameArchitecture returns an error if the machine's processor cannot run the version.
func sameArchitecture(p Plan, told fleet.Hardware) error {
	is, want := told.Architecture, p.Manifest.Architecture
	if is == "" || is == want {
		return nil
	}
	name, _, _, _ := p.Image.Split() // it resolved
	return hint.With(fmt.Errorf("%s %s is for %s, and this machine is %s", p.Image, p.Version.Short(), want, is),
		fmt.Sprintf(
			"build one for it, `pando image build %s-%s --architecture %[2]s`, and put its nodes into a group "+
				"that boots that",
			name,
			is,
		))
}

// KernelArgs returns all kernel arguments of the plan, in the order in which the kernel reads them.
func (p Plan) KernelArgs() []string {
	args := slices.Concat(p.Manifest.CommandLine, p.Group.KernelArgs)
	for _, c := range p.Classes {
		args = append(args, c.KernelArgs...)
	}
	return append(args, p.Node.KernelArgs...)
}

// HardwareClasses returns the hardware classes that a node belongs to.
func HardwareClasses(tx *registry.Tx, node fleet.Node, told fleet.Hardware) ([]fleet.Class, error) {
	all, err := tx.Classes()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	reported, err := tx.Hardware(node.Name)
	return fleet.ClassesOf(reported[node.Name].With(told), all), err
}

// RebootAfter returns after how long a stuck boot of a node of this group restarts.
func (s *Planner) RebootAfter(g fleet.Group) time.Duration {
	return cmp.Or(fleet.ValueOf(g.RebootAfter), s.reboot)
}

// Member returns the adopted node that has a MAC, and its group with the node's overrides.
func (s *Planner) Member(ctx context.Context, mac fleet.MAC) (fleet.Node, fleet.Group, error) {
	var node fleet.Node
	var group fleet.Group
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if node, err = tx.NodeByMAC(mac); err != nil {
			return err
		}
		group, err = tx.Group(node.Group)
		group = node.Settings.Of(group)
		return err
	})
	if errors.Is(err, registry.ErrNotFound) || err == nil && node.State != fleet.Adopted {
		return node, group, api.NewError(
			api.Unauthorized,
			"no adopted node has MAC "+mac.String(),
			"adopt it with `pando node adopt`, then reset the machine",
		)
	}
	return node, group, err
}
