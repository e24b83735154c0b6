package bootmedia

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/media"
	"pando/internal/registry"
)

// NodeMedium answers POST /v1/node/medium with the writes that update the boot medium of a running node to the version
// that it runs; no content if it is up to date. A request with a size gets all writes that make a disk a medium.
func (s *Service) NodeMedium(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.NodeMedium](w, r)
	if err != nil {
		return err
	}
	b, err := s.auth.Reporter(r, req.Boot)
	if err != nil {
		return err
	}
	n, err := s.renewal(r.Context(), b, req)
	if err != nil {
		return hint.API(err)
	}
	if n.inStep {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err := s.Sending.Begin(); err != nil {
		return err
	}
	defer s.Sending.End()
	writes, err := n.writes(r.Context(), req.Size)
	if err != nil {
		return hint.API(err)
	}
	if len(writes) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	sendWrites(w, writes)
	return nil
}

// renewal describes the update of a running node's boot medium.
type renewal struct {
	server  *Service
	plan    bootplan.Plan
	control []string
	key     string // names everything that the contents depend on
	now     [media.Slots]media.Header
	inStep  bool
}

func (s *Service) renewal(ctx context.Context, b registry.Boot, req api.NodeMedium) (n renewal, err error) {
	n = renewal{server: s, control: s.ports.ControlURLs(s.interfaces)}
	if n.plan, err = s.ranPlan(ctx, b); err != nil {
		return n, err
	}
	for i := range min(len(req.Slots), media.Slots) {
		n.now[i] = media.Header{Sequence: req.Slots[i].Sequence, Digest: req.Slots[i].Digest}
	}
	n.key = strings.Join(
		slices.Concat(
			[]string{string(n.plan.Version), fmt.Sprint(s.planner.RebootAfter(n.plan.Group))},
			n.plan.KernelArgs(),
			n.control,
			s.keys.Ring.Trust().Accepted(),
		),
		"\n",
	)
	newest := media.Newest(n.now).Digest
	if req.Size != 0 || newest == "" {
		return n, nil // the whole content is sent
	}
	digest, err := s.Digests.of(n.key, func() (media.K, error) { return s.Contents(ctx, n.plan, n.control) })
	n.inStep = err == nil && digest == newest
	return n, err
}

// writes returns the writes that update the medium or, with a size, make a disk one.
func (n renewal) writes(ctx context.Context, size int64) ([]media.Write, error) {
	k, err := n.server.Contents(ctx, n.plan, n.control)
	if err != nil {
		return nil, err
	}
	n.server.Digests.put(n.key, k.Digest())
	if size == 0 {
		return media.Renew(n.now, k)
	}
	l, err := makeLoader(ctx, n.server.bootFiles)
	if err != nil {
		return nil, err
	}
	return media.Medium(size, l, k)
}

// ranPlan returns the plan of the version that a boot runs already.
func (s *Service) ranPlan(ctx context.Context, b registry.Boot) (p bootplan.Plan, err error) {
	p.Image, p.Version = b.Image, b.Version
	if p.Node, p.Group, err = s.planner.Member(ctx, b.MAC); err != nil {
		return p, err
	}
	err = s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		p.Classes, err = bootplan.HardwareClasses(tx, p.Node, fleet.Hardware{})
		return err
	})
	if err != nil {
		return p, err
	}
	if p.Manifest, err = s.versions.Bootable(b.Version); err != nil {
		return p, fmt.Errorf("medium of %s: %w", b.Version.Short(), err)
	}
	return p, nil
}
