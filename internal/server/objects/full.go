package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/workdir"
)

// forget runs a change of the registry that takes the names from versions. On a disk where not even the reserve has
// room for it, it makes room and runs it again.
func (k *Collector) forget(ctx context.Context, before time.Time, change func(*registry.Tx) error) error {
	err := k.registry.UpdateReserved(ctx, change)
	if !errors.Is(err, registry.ErrFull) {
		return err
	}
	k.log.Warn("the disk is full; making room for the registry", "err", err)
	if err := k.makeRoom(ctx, before); err != nil {
		return fmt.Errorf("make room on a full disk: %w", err)
	}
	return k.registry.UpdateReserved(ctx, change)
}

// makeRoom removes what it can without the registry: objects that no version names, and abandoned builds. If the store
// cannot be read completely it removes no object.
func (k *Collector) makeRoom(ctx context.Context, before time.Time) error {
	all := func(fleet.Digest) bool { return true }
	if _, err := k.store.Sweep(ctx, store.SweepOptions{Hold: all, Before: before}); err != nil {
		k.log.Warn("no objects were removed", "err", err)
	}
	_, _, err := workdir.Collect(k.work, before, before, false)
	return errors.Join(err, ctx.Err())
}
