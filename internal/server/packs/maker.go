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

// Maker makes boot packs in the background, one at a time. Boots do not wait for it: each gets the pack that there is
// when the node registers, and keeps it.
type Maker struct {
	store    *store.Dir
	manifest func(fleet.Digest) (image.Manifest, error) // of a version, verified
	registry *registry.Registry
	traces   *Traces
	ring     *identity.Ring
	now      func() time.Time
	seen     func(fleet.Node) time.Time // when a node was heard of
	log      *slog.Logger
	Idle     func() // called when there is nothing left to look at; nil: nobody wants to know

	mu     sync.Mutex
	dirty  map[fleet.Digest]bool      // versions to look at
	failed map[fleet.Digest]time.Time // when the last try failed; only run's
	wake   chan struct{}              // one may be waiting in it
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

// New returns a Maker that has looked at nothing yet.
func New(o Options) *Maker {
	return &Maker{store: o.Store, registry: o.Registry, traces: o.Traces, ring: o.Ring, manifest: o.Manifest,
		seen: o.LastSeen, now: o.Now, log: o.Log,
		dirty: map[fleet.Digest]bool{}, failed: map[fleet.Digest]time.Time{}, wake: make(chan struct{}, 1)}
}

// Look asks for versions to be checked: is there a pack to make?
func (p *Maker) Look(versions ...fleet.Digest) {
	p.mu.Lock()
	for _, v := range versions {
		p.dirty[v] = true
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Waiting is how many versions are to be looked at.
func (p *Maker) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dirty)
}

// next takes a version to look at.
func (p *Maker) next() (fleet.Digest, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v := range p.dirty {
		delete(p.dirty, v)
		return v, true
	}
	return "", false
}

// Run makes packs until ctx ends. What cannot be made is logged and tried again when something new is known.
func (p *Maker) Run(ctx context.Context) error {
	if err := p.lookAll(ctx); err != nil && ctx.Err() == nil {
		p.log.Error("boot packs", "err", err)
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
				p.log.Error("boot packs that were replaced are kept", "err", err)
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

// retryAfter is how long to wait after a pack could not be made. An attempt that fails on a full disk takes a minute of
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
			"boot pack",
			"version",
			v,
			"err",
			err,
			"hint",
			"boots go on with what there is; a boot later than "+retryAfter.String()+" tries again",
		)
	}
}

// lookAll looks at every version that has a name.
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

// Version makes what a version needs.
func (p *Maker) Version(ctx context.Context, v fleet.Digest) error {
	m, err := p.manifest(v)
	if err != nil {
		return err
	}
	if !p.ring.SignsPacks(m) {
		return nil // whoever has the key makes its packs
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
	if len(jobs) > 0 { // a version that came after may start from it, a class may need its own
		return p.lookAll(ctx)
	}
	return nil
}

// whole gives an extension that came without a pack one of all that it has.
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

// record makes a pack of the traces that were known at some moment. Packing a desktop takes minutes, in which
// others come.
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
