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

// ReplacedKept is how long the pieces of a replaced pack are kept for boots and nodes that use them. A node may read a
// piece that it dropped days later, and serves its pieces to others. Without the pieces it reads chunks.
const (
	ReplacedKept = 24 * time.Hour
	// The longest time between the choice of a pack and the record of the boot, as a node may repeat its registration.
	registrationTakes = 10 * time.Minute
)

// collectEvery is the interval at which replaced packs are checked.
const collectEvery = time.Hour

// Collect removes the objects that only replaced packs need, when no node can use them any more.
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

// running returns, for each version, the start of the oldest boot of the nodes that run it or are booting it. Only a
// node's last boot counts.
func (p *Maker) running(ctx context.Context, now time.Time) (map[fleet.Digest]time.Time, error) {
	first, seen := map[fleet.Digest]time.Time{}, map[fleet.MAC]bool{}
	err := p.registry.View(ctx, func(tx *registry.Tx) error {
		all, err := tx.Boots(registry.BootFilter{})
		if err != nil {
			return err
		}
		for _, b := range all { // newest first
			if b.TokenUsed.IsZero() || seen[b.MAC] {
				continue // it has no pack yet, so the boot before it counts
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
