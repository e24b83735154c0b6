package objects

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/workdir"
)

// The settings of automatic garbage collection.
const (
	keepEvery    = 24 * time.Hour
	keepGrace    = 24 * time.Hour // so that an interrupted upload or build can continue
	keepVersions = 3
)

// workDir is the directory of unfinished builds, in the data directory.
const workDir = "work"

// Collector removes versions and objects that nothing needs.
type Collector struct {
	store    *store.Dir
	registry *registry.Registry
	traces   traceForgetter
	work     string                     // directory of unfinished builds
	now      func() time.Time           // the registry's clock
	Written  func() time.Time           // the clock of the store's files
	seen     func(fleet.Node) time.Time // when a node was last seen
	log      *slog.Logger

	// naming is held while a version gets its first name, and while versions lose their last name and their files.
	// Collection cannot remove a version between finding it in the store and naming it.
	naming sync.Mutex
}

// CollectorOptions are what a Collector needs.
type CollectorOptions struct {
	Store    *store.Dir
	Registry *registry.Registry
	Traces   traceForgetter
	Dir      string           // the data directory
	Now      func() time.Time // the registry's clock
	LastSeen func(fleet.Node) time.Time
	Log      *slog.Logger
}

// traceForgetter removes the read traces of a version.
type traceForgetter interface {
	Forget(v fleet.Digest) error
}

// NewCollector returns a Collector.
func NewCollector(o CollectorOptions) *Collector {
	return &Collector{store: o.Store, registry: o.Registry, traces: o.Traces, work: filepath.Join(o.Dir, workDir),
		now: o.Now, Written: time.Now, seen: o.LastSeen, log: o.Log}
}

// LockNames blocks the first naming of versions and their collection until unlock is called.
func (k *Collector) LockNames() (unlock func()) {
	k.naming.Lock()
	return k.naming.Unlock
}

// Run collects garbage once a day. The first time is an hour after the start, when the work of the start is over.
func (k *Collector) Run(ctx context.Context) error {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			t.Reset(keepEvery)
		}
		grace := time.Duration(keepGrace)
		c, err := k.collect(ctx, api.StoreCollect{Grace: &grace})
		if err != nil && ctx.Err() == nil {
			k.log.Error("garbage collection failed", "err", err)
		}
		if len(c.Versions)+c.Objects+len(c.Work) > 0 {
			k.log.Info(
				"garbage collection removed what nothing needs",
				"versions",
				len(c.Versions),
				"objects",
				c.Objects,
				"bytes",
				c.Bytes,
				"work",
				len(c.Work),
			)
		}
	}
}

// collect removes, in this order, the names of unused versions, their files, objects that no version names, and
// abandoned builds.
func (k *Collector) collect(ctx context.Context, req api.StoreCollect) (out api.StoreCollected, err error) {
	keep, grace := keepVersions, time.Duration(keepGrace)
	if req.Keep != nil {
		keep = *req.Keep
	}
	if req.Grace != nil {
		grace = *req.Grace
	}
	out = api.StoreCollected{
		DryRun:   req.DryRun,
		Versions: []api.CollectVersion{},
		Work:     []api.WorkDir{},
		Held:     []api.HeldVersion{},
	}
	unlock, err := k.store.Lock(ctx, "garbage collection")
	if err != nil {
		return out, err
	}
	defer unlock()
	before := k.Written().Add(-grace)
	plan, err := k.unname(ctx, keep, min(grace, TagKept), before, req.DryRun)
	if err != nil {
		return out, err
	}
	swept, err := k.store.Sweep(ctx, store.SweepOptions{Hold: plan.stays, Before: before, DryRun: req.DryRun})
	k.naming.Unlock()
	out.Objects, out.Bytes, out.Fresh, out.FreshBytes = swept.Objects, swept.Bytes, swept.Fresh, swept.Kept
	for _, v := range swept.Versions {
		out.Versions = append(out.Versions, api.CollectVersion{Image: plan.image[v], Version: v})
	}
	out.Held = plan.heldViews()
	if err != nil {
		return out, err
	}
	if !req.DryRun {
		defer k.registry.Relieve(ctx)
		for _, v := range swept.Versions {
			err = errors.Join(err, k.traces.Forget(v))
		}
	}
	return out, errors.Join(err, k.collectWork(before, req, &out))
}

// collectWork removes unfinished builds. A request without a grace time removes all that no build uses now.
func (k *Collector) collectWork(before time.Time, req api.StoreCollect, out *api.StoreCollected) error {
	idle := before
	if req.Grace == nil {
		idle = k.Written().Add(time.Minute) // file times may be a tick ahead of the clock
	}
	gone, stay, err := workdir.Collect(k.work, idle, before, req.DryRun)
	for _, w := range gone {
		out.Work = append(out.Work, api.WorkDir{Name: w.Name, Bytes: w.Bytes, Used: w.Used})
	}
	for _, w := range stay {
		why := api.WorkYoung
		switch {
		case w.Busy:
			why = api.WorkBusy
		case w.Changed:
			why = api.WorkChanged
		case w.Layers:
			why = api.WorkLayers
		}
		out.WorkStays = append(out.WorkStays, api.WorkDir{Name: w.Name, Bytes: w.Bytes, Used: w.Used, Why: why})
	}
	return err
}

// plan holds the versions that stay, with the reasons.
type plan struct {
	Roots
	image map[fleet.Digest]string // a name of each version that has or had one
}

func (p plan) stays(v fleet.Digest) bool { return len(p.Roots[v]) > 0 }

func (p plan) heldViews() []api.HeldVersion {
	out := []api.HeldVersion{}
	for v, by := range p.Roots {
		out = append(out, api.HeldVersion{Image: p.image[v], Version: v, By: by})
	}
	slices.SortFunc(out, func(a, b api.HeldVersion) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// unname decides which versions stay and removes the names of the others. Without an error it returns with naming
// locked, so that no version gets a name again before its files are removed.
func (k *Collector) unname(
	ctx context.Context,
	keep int,
	left time.Duration,
	before time.Time,
	dryRun bool,
) (p plan, err error) {
	k.naming.Lock()
	defer func() {
		if err != nil {
			k.naming.Unlock()
		}
	}()
	p.image = map[fleet.Digest]string{}
	decide := func(tx *registry.Tx) error {
		if p.Roots, err = k.roots(ctx, tx, keep, left); err != nil {
			return err
		}
		versions, err := tx.Versions("")
		if err != nil {
			return err
		}
		for _, v := range versions {
			p.image[v.Version] = v.Image
			if at := k.store.Written(v.Version); !at.Before(before) {
				p.add(v.Version, "written "+k.Written().Sub(at).Round(time.Second).String()+" ago")
			}
		}
		for _, v := range versions {
			if p.stays(v.Version) || dryRun {
				continue
			}
			if err := tx.DeleteVersion(v.Image, v.Version); err != nil {
				return err
			}
		}
		return nil
	}
	if dryRun {
		return p, k.registry.View(ctx, decide)
	}
	return p, k.forget(ctx, before, decide)
}
