package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/media"
	"pando/internal/registry"
)

// kDigests remembers what K of a medium is, so that the nodes that have it cost no reading of kernels.
type kDigests struct {
	mu    sync.Mutex
	known map[string]string
}

// maxKDigests bounds them; a site has a few.
const maxKDigests = 256

func (d *kDigests) get(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[key]
}

func (d *kDigests) put(key, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxKDigests {
		d.known = map[string]string{}
	}
	d.known[key] = digest
}

// nodeMedium answers POST /v1/node/medium: what brings the boot medium of a running node in step with what it runs, as a list
// of writes; nothing when it is. With a size it is all that makes a disk a medium.
func (s *Server) nodeMedium(w http.ResponseWriter, r *http.Request) error {
	req, err := decodeReport[api.NodeMedium](w, r)
	if err != nil {
		return err
	}
	b, err := s.reporter(r, api.ReportRequest{Boot: req.Boot})
	if err != nil {
		return err
	}
	writes, err := s.renewal(r.Context(), b, req)
	if err != nil {
		return advised(err)
	}
	if len(writes) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = media.Send(w, writes) // a list that breaks off is noticed by who reads it
	return nil
}

func (s *Server) renewal(ctx context.Context, b registry.Boot, req api.NodeMedium) ([]media.Write, error) {
	p, err := s.ranPlan(ctx, b)
	if err != nil {
		return nil, err
	}
	var now [media.Slots]media.Header
	for i := range min(len(req.Slots), media.Slots) {
		now[i] = media.Header{Sequence: req.Slots[i].Sequence, Digest: req.Slots[i].Digest}
	}
	control := s.controlURLs()
	key := strings.Join(append(append([]string{string(p.version), fmt.Sprint(s.rebootAfter(p.group))}, p.kernelArgs()...),
		append(control, s.keys.Ring.Trust().Accepted()...)...), "\n")
	if newest := media.Newest(now); req.Size == 0 && newest.Digest != "" && newest.Digest == s.mediumKs.get(key) {
		return nil, nil
	}
	k, err := s.mediumK(ctx, p, control)
	if err != nil {
		return nil, err
	}
	s.mediumKs.put(key, k.Digest())
	if req.Size == 0 {
		return media.Renew(now, k)
	}
	l, err := makeLoader(ctx, s.cfg.BootFiles)
	if err != nil {
		return nil, err
	}
	return media.Medium(req.Size, l, k)
}

// ranPlan is a plan for what a boot runs already.
func (s *Server) ranPlan(ctx context.Context, b registry.Boot) (p plan, err error) {
	p.image, p.version = b.Image, b.Version
	if p.node, p.group, err = s.member(ctx, b.MAC); err != nil {
		return p, err
	}
	err = s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		p.classes, err = hardwareClasses(tx, p.node, fleet.Hardware{})
		return err
	})
	if err != nil {
		return p, err
	}
	if p.manifest, err = s.versions.bootable(b.Version); err != nil {
		return p, fmt.Errorf("medium of %s: %w", b.Version.Short(), err)
	}
	return p, nil
}
