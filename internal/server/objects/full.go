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

// forget runs a registry change that removes names of versions. If not even the disk reserve has room for the change,
// it frees space and runs the change again.
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

// makeRoom removes what it can without writing to the registry: objects that no version names, and abandoned builds. If
// the store cannot be read completely it removes no object.
func (k *Collector) makeRoom(ctx context.Context, before time.Time) error {
	all := func(fleet.Digest) bool { return true }
	if _, err := k.store.Sweep(ctx, store.SweepOptions{Hold: all, Before: before}); err != nil {
		k.log.Warn("no objects were removed from the full disk", "err", err)
	}
	_, _, err := workdir.Collect(k.work, before, before, false)
	return errors.Join(err, ctx.Err())
}
