package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/image"
	"pando/internal/registry"
)

// plan is what the next boot of a node runs.
type plan struct {
	node     fleet.Node
	group    fleet.Group   // with what the node has otherwise
	classes  []fleet.Class // that its hardware is of
	image    fleet.Ref
	version  fleet.Digest
	manifest image.Manifest
}

// plan decides what a node boots: its own version if it has one, else the one of a rollout, else its group's. told
// is what its boot loader says of the machine, which for one that never booted is all that is known.
func (s *Server) plan(ctx context.Context, node fleet.Node, told fleet.Hardware) (plan, error) {
	p := plan{node: node}
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if p.group, err = tx.Group(node.Group); err != nil {
			return err
		}
		p.group = node.Settings.Of(p.group)
		if p.classes, err = hardwareClasses(tx, node, told); err != nil {
			return err
		}
		if p.image = node.Version; p.image == "" {
			target, err := tx.Target(node.Name)
			if err != nil {
				return err
			}
			p.image = cmp.Or(target.Image, p.group.Image)
		}
		if p.image == "" {
			return hint.With(fmt.Errorf("group %s has no image", node.Group),
				fmt.Sprintf("build one with `pando image build`, then `pando group set %s --image NAME`", node.Group))
		}
		p.version, err = tx.Resolve(p.image)
		if errors.Is(err, registry.ErrNotFound) {
			return hint.With(fmt.Errorf("image %s: %w", p.image, err),
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
	if p.manifest, err = s.versions.Bootable(p.version); err != nil {
		return p, err
	}
	if err := sameArchitecture(p, told); err != nil {
		return p, err
	}
	return p, s.agents.has(p.manifest.Architecture)
}

// sameArchitecture refuses a version that this machine's processor does not run.
func sameArchitecture(p plan, told fleet.Hardware) error {
	is, want := told.Architecture, p.manifest.Architecture
	if is == "" || is == want {
		return nil
	}
	name, _, _, _ := p.image.Split() // it resolved
	return hint.With(fmt.Errorf("%s %s is for %s, and this machine is %s", p.image, p.version.Short(), want, is),
		fmt.Sprintf(
			"build one for it, `pando image build %s-%s --architecture %[2]s`, and put its nodes into a group "+
				"that boots that",
			name,
			is,
		))
}

// kernelArgs are all kernel arguments of the plan, in the order in which the kernel reads them.
func (p plan) kernelArgs() []string {
	args := slices.Concat(p.manifest.CommandLine, p.group.KernelArgs)
	for _, c := range p.classes {
		args = append(args, c.KernelArgs...)
	}
	return append(args, p.node.KernelArgs...)
}

// hardwareClasses are the hardware classes that a node is of.
func hardwareClasses(tx *registry.Tx, node fleet.Node, told fleet.Hardware) ([]fleet.Class, error) {
	all, err := tx.Classes()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	reported, err := tx.Hardware(node.Name)
	return fleet.ClassesOf(reported[node.Name].With(told), all), err
}
