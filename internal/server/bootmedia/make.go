package bootmedia

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/bootplan"
	"pando/internal/build/initramfs"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/initrd"
	"pando/internal/media"
	"pando/internal/registry"
)

// createMedium answers POST /v1/media with the writes that make a boot medium.
func (s *Service) createMedium(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.Body[api.MediumCreate](r)
	if err != nil {
		return err
	}
	writes, err := s.medium(r.Context(), req)
	if err != nil {
		return hint.API(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	_ = media.Send(w, writes) // the client notices a list that breaks off
	return nil
}

// medium makes the writes of a boot medium.
func (s *Service) medium(ctx context.Context, req api.MediumCreate) ([]media.Write, error) {
	if req.Size < media.MinSize || req.Size%media.Sector != 0 {
		return nil, httpapi.BadRequest(
			fmt.Sprintf(
				"a boot medium has at least %d MB, this one has %d",
				(media.MinSize+999_999)/1_000_000,
				req.Size/1_000_000,
			),
			"",
		)
	}
	p, err := s.planOf(ctx, req.Select)
	if err != nil {
		return nil, err
	}
	k, err := s.Contents(ctx, p, req.Control)
	if err != nil {
		return nil, err
	}
	l, err := makeLoader(ctx, s.bootFiles)
	if err != nil {
		return nil, err
	}
	return media.Medium(req.Size, l, k)
}

// planOf returns what a medium for the selected nodes starts. The selection may be a group without nodes. Several nodes
// must boot the same version with the same arguments, because a medium has one kernel and initramfs.
func (s *Service) planOf(ctx context.Context, selection string) (bootplan.Plan, error) {
	name, isGroup := strings.CutPrefix(selection, "@")
	var nodes []fleet.Node
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if isGroup && !strings.ContainsAny(name, ",&!^()@=") {
			_, err = tx.Group(name)
			return err
		}
		nodes, err = fleetview.SelectNodes(tx, selection, false)
		return err
	})
	if err != nil {
		return bootplan.Plan{}, err
	}
	if len(nodes) == 0 {
		return s.planner.Plan(ctx, fleet.Node{Name: selection, Group: name}, fleet.Hardware{})
	}
	var first bootplan.Plan
	for i, n := range nodes {
		p, err := s.planner.Plan(ctx, n, fleet.Hardware{})
		if err != nil {
			return p, err
		}
		if i == 0 {
			first = p
		}
		if p.Version != first.Version || !slices.Equal(p.KernelArgs(), first.KernelArgs()) {
			return p, httpapi.BadRequest(
				fmt.Sprintf(
					"%s and %s boot different versions, or with different kernel arguments",
					first.Node.Name,
					n.Name,
				),
				"make a medium for each",
			)
		}
	}
	return first, nil
}

// Contents returns kernel, initramfs and arguments of a medium. They are for no particular boot, so they have the
// drivers of every NIC and no token.
func (s *Service) Contents(ctx context.Context, p bootplan.Plan, control []string) (media.K, error) {
	var k media.K
	if a := p.Manifest.Architecture; a != "amd64" {
		return k, httpapi.BadRequest(
			fmt.Sprintf("a boot medium starts amd64 machines, and %s is for %s", p.Image, a),
			"machines of "+a+" boot from the network",
		)
	}
	if len(control) == 0 {
		control = s.ports.ControlURLs(s.interfaces)
	}
	if len(control) == 0 {
		return k, httpapi.BadRequest(
			"no network interface of this server has an address that nodes could use",
			"name it with --control https://ADDRESS:8443",
		)
	}
	trust, err := initramfs.TrustCPIO(api.BootConfig{
		Format: 1, Medium: p.Version, Control: control,
		ServerKey: api.KeyText(s.keys.ServerPublic()), TrustKeys: s.keys.Ring.Trust().Accepted(),
		Release: s.release, RebootAfter: s.planner.RebootAfter(p.Group),
	})
	if err != nil {
		return k, err
	}
	agent, err := s.agents.Get(ctx, p.Manifest.Architecture)
	if err != nil {
		return k, err
	}
	disks, err := s.disks.Get(ctx, p.Version, p.Manifest)
	if err != nil {
		s.log.Warn("boot medium has no cache: disk drivers cannot be made", "version", p.Version.Short(), "err", err)
	}
	joined, err := initrd.Join(s.store, trust, p.Manifest.AllDrivers(), disks, agent)
	if err != nil {
		return k, err
	}
	defer joined.Close()
	if k.Initramfs, err = io.ReadAll(joined); err != nil {
		return k, fmt.Errorf("initramfs of a medium: %w", err)
	}
	kernel, err := s.store.Open(p.Manifest.Kernel.Object)
	if err != nil {
		return k, fmt.Errorf("kernel of a medium: %w", err)
	}
	defer kernel.Close()
	k.Kernel, err = io.ReadAll(kernel)
	k.Args = p.KernelArgs()
	return k, err
}
