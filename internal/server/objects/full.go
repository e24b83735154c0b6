package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/workdir"
)

// reserveFile takes room in the data directory that is given up when the disk is full: names of versions are
// removed before their files, so without room for the registry to say so nothing would ever be freed.
const reserveFile = "reserve"

// reserveSize is far more than the registry writes to forget a thousand versions, in bytes.
const reserveSize = 4 << 20

// Reserve takes the room, if it is to be had: a disk that is full when the server starts has none to reserve.
func (k *Collector) Reserve() {
	path := filepath.Join(filepath.Dir(k.work), reserveFile)
	if info, err := os.Stat(path); err == nil && info.Size() == reserveSize {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, reserveSize), f.Close())
	}
	if err != nil {
		_ = os.Remove(path) // the next collection tries again
		k.log.Debug("no room is kept for a full disk", "path", path, "err", err)
	}
}

// forget runs a change of the registry that takes the names from versions. On a full disk it makes room and runs it
// again.
func (k *Collector) forget(ctx context.Context, before time.Time, change func(*registry.Tx) error) error {
	err := k.registry.Update(ctx, change)
	if !errors.Is(err, registry.ErrFull) {
		return err
	}
	k.log.Warn("the disk is full; making room for the registry", "err", err)
	if err := k.makeRoom(ctx, before); err != nil {
		return fmt.Errorf("make room on a full disk: %w", err)
	}
	return k.registry.Update(ctx, change)
}

// makeRoom removes what it can without the registry: objects that no version names, abandoned builds, and the reserve.
// If the store cannot be read completely it removes no object.
func (k *Collector) makeRoom(ctx context.Context, before time.Time) error {
	all := func(fleet.Digest) bool { return true }
	if _, err := k.store.Sweep(ctx, store.SweepOptions{Hold: all, Before: before}); err != nil {
		k.log.Warn("no objects were removed", "err", err)
	}
	_, _, err := workdir.Collect(k.work, before, before, false)
	if e := os.Remove(filepath.Join(filepath.Dir(k.work), reserveFile)); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, ctx.Err())
}
