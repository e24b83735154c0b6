package packs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
)

// Maker makes boot packs in the background, one at a time. Boots do not wait for it: each gets the pack that exists
// when the node registers, and keeps it.
type Maker struct {
	store    *store.Dir
	manifest func(fleet.Digest) (image.Manifest, error) // verified manifest of a version
	registry *registry.Registry
	traces   *Traces
	ring     *identity.Ring
	now      func() time.Time
	seen     func(fleet.Node) time.Time // when a node was last seen
	log      *slog.Logger
	Idle     func() // called when no version is left to check; may be nil

	mu     sync.Mutex
	dirty  map[fleet.Digest]bool      // versions to check
	failed map[fleet.Digest]time.Time // when the last try failed; used by Run alone
	wake   chan struct{}              // capacity 1
}

// Options are what a Maker needs.
type Options struct {
	Store    *store.Dir
	Registry *registry.Registry
	Traces   *Traces
	Ring     *identity.Ring                             // the keys that sign packs
	Manifest func(fleet.Digest) (image.Manifest, error) // the verified manifest of a version
	LastSeen func(fleet.Node) time.Time
	Now      func() time.Time
	Log      *slog.Logger
}

// New returns a Maker that has checked no version yet.
func New(o Options) *Maker {
	return &Maker{store: o.Store, registry: o.Registry, traces: o.Traces, ring: o.Ring, manifest: o.Manifest,
		seen: o.LastSeen, now: o.Now, log: o.Log,
		dirty: map[fleet.Digest]bool{}, failed: map[fleet.Digest]time.Time{}, wake: make(chan struct{}, 1)}
}

// Look requests a check of versions: is there a pack to make?
func (p *Maker) Look(versions ...fleet.Digest) {
	p.mu.Lock()
	for _, v := range versions {
		p.dirty[v] = true
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // a check is pending already
	}
}

// Waiting returns how many versions are still to be checked.
func (p *Maker) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dirty)
}

// next removes and returns a version to check.
func (p *Maker) next() (fleet.Digest, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v := range p.dirty {
		delete(p.dirty, v)
		return v, true
	}
	return "", false
}

// Run makes packs until ctx ends. A pack that cannot be made is logged, and tried again after later boots.
func (p *Maker) Run(ctx context.Context) error {
	if err := p.lookAll(ctx); err != nil && ctx.Err() == nil {
		p.log.Error("versions cannot be checked for boot packs", "err", err)
	}
	collect := time.NewTicker(collectEvery)
	defer collect.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-collect.C:
			if err := p.Collect(ctx); err != nil && ctx.Err() == nil {
				p.log.Error("replaced boot packs cannot be removed", "err", err)
			}
			continue
		}
		for v, ok := p.next(); ok && ctx.Err() == nil; v, ok = p.next() {
			p.try(ctx, v)
		}
		if p.Idle != nil {
			p.Idle()
		}
	}
}

// retryAfter is the pause after a pack could not be made. A failed attempt, such as on a full disk, takes a minute of
// processor time, and every boot would cause one.
const retryAfter = 10 * time.Minute

func (p *Maker) try(ctx context.Context, v fleet.Digest) {
	if last, ok := p.failed[v]; ok && p.now().Sub(last) < retryAfter {
		return
	}
	delete(p.failed, v)
	if err := p.Version(ctx, v); err != nil && ctx.Err() == nil {
		p.failed[v] = p.now()
		p.log.Error(
			"boot pack cannot be made",
			"version",
			v,
			"err",
			err,
			"hint",
			"boots use the present pack, or none; the first boot after "+retryAfter.String()+" tries again",
		)
	}
}

// lookAll requests a check of every version that has a name.
func (p *Maker) lookAll(ctx context.Context) error {
	var all []registry.ImageVersion
	err := p.registry.View(ctx, func(tx *registry.Tx) (err error) {
		all, err = tx.Versions("")
		return err
	})
	for _, v := range all {
		p.Look(v.Version)
	}
	return err
}

// Version makes the packs that a version needs.
func (p *Maker) Version(ctx context.Context, v fleet.Digest) error {
	m, err := p.manifest(v)
	if err != nil {
		return err
	}
	if !p.ring.SignsPacks(m) {
		return nil // the owner of the key makes its packs
	}
	has, err := p.has(ctx, v)
	if err != nil {
		return err
	}
	if m.IsExtension() {
		return p.whole(ctx, v, m, has)
	}
	known := p.traces.settled(p.now)
	traces, err := p.measured(ctx, v, m)
	if err != nil {
		return err
	}
	jobs := planPacks(traces, has)
	if _, ok := has[""]; !ok && len(jobs) == 0 {
		return p.carry(ctx, v, m)
	}
	for _, j := range jobs {
		if err := p.record(ctx, v, m, j, known); err != nil {
			return err
		}
	}
	if len(jobs) > 0 { // a later version may carry over from it, and a class may need its own
		return p.lookAll(ctx)
	}
	return nil
}

// whole makes a pack of all blocks of an extension that came without a pack.
func (p *Maker) whole(ctx context.Context, v fleet.Digest, m image.Manifest, has map[string]packNow) error {
	keys := p.ring.Signers()
	if _, ok := has[""]; ok || len(keys) == 0 {
		return nil
	}
	r, err := packer.MakeWhole(
		ctx,
		packer.Options{Store: p.store, Keys: keys, Version: v, Manifest: m, Log: p.log, Now: p.now},
	)
	if err == nil {
		p.log.Info("extension packed", "version", v.Short(), "raw", r.Raw, "stored", r.Stored)
	}
	return err
}

// record makes a pack of the traces that were known at a moment. Packing a desktop takes minutes, in which further
// traces may arrive.
func (p *Maker) record(ctx context.Context, v fleet.Digest, m image.Manifest, j packJob, known time.Time) error {
	begin := time.Now()
	r, err := packer.Make(
		ctx,
		packer.Options{Store: p.store, Keys: p.ring.Signers(), Version: v, Manifest: m, Class: j.class,
			Order: j.order, Boots: j.boots, Traced: known, Before: j.before, Log: p.log, Now: p.now},
	)
	if err != nil {
		return err
	}
	p.log.Info(
		"boot pack recorded",
		"version",
		v.Short(),
		"class",
		j.class,
		"why",
		j.why,
		"boots",
		j.boots,
		"raw",
		r.Raw,
		"stored",
		r.Stored,
		"seconds",
		time.Since(begin).Seconds(),
	)
	return nil
}
