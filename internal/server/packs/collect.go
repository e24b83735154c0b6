package packs

import (
	"context"
	"errors"
	"time"

	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/image/bootpack"
	"pando/internal/registry"
)

// How long pieces of a replaced pack are kept: for a boot that may be anywhere, and for a node that runs with them.
// A boot takes minutes. A node reads a piece that it let go of days later, and gives its pieces to others; without
// them it reads chunks.
const (
	ReplacedKept = 24 * time.Hour
	// the most time between the choice of a pack and the record of the boot, as a node may register again
	registrationTakes = 10 * time.Minute
)

// collectEvery is how often replaced packs are looked at.
const collectEvery = time.Hour

// Collect removes what replaced packs alone need, when no node can be using it any more.
func (p *Maker) Collect(ctx context.Context) error {
	now := p.now()
	running, err := p.running(ctx, now)
	if err != nil {
		return err
	}
	unlock, err := p.store.Lock(ctx, "collect boot packs")
	if err != nil {
		return err
	}
	defer unlock()
	c, err := p.store.CollectPacks(ctx, func(v fleet.Digest, r bootpack.Replaced) bool {
		first, ok := running[v]
		return now.Sub(r.Replaced) >= ReplacedKept && (!ok || first.After(r.Replaced.Add(registrationTakes)))
	})
	if c.Packs > 0 {
		p.log.Info("replaced boot packs collected", "packs", c.Packs, "objects", c.Objects, "bytes", c.Bytes)
	}
	return err
}

// running tells of each version when the first of the boots began, of the nodes that run it or are on the way
// there. Only a node's last boot counts.
func (p *Maker) running(ctx context.Context, now time.Time) (map[fleet.Digest]time.Time, error) {
	first, seen := map[fleet.Digest]time.Time{}, map[fleet.MAC]bool{}
	err := p.registry.View(ctx, func(tx *registry.Tx) error {
		all, err := tx.Boots(registry.BootFilter{})
		if err != nil {
			return err
		}
		for _, b := range all { // the newest first
			if b.TokenUsed.IsZero() || seen[b.MAC] {
				continue // it was told of no pack yet, so what ran before it counts
			}
			seen[b.MAC] = true
			last := b.TokenUsed
			switch n, err := tx.NodeByMAC(b.MAC); {
			case err == nil && p.seen(n).After(last):
				last = p.seen(n)
			case err != nil && !errors.Is(err, registry.ErrNotFound):
				return err
			}
			if at, ok := first[b.Version]; now.Sub(last) < fleetview.SilentAfter && (!ok || b.TokenUsed.Before(at)) {
				first[b.Version] = b.TokenUsed
			}
		}
		return nil
	})
	return first, err
}
