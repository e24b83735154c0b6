package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"pando/internal/diskreserve"
	"pando/internal/fleet"
)

// least is how many bytes must be free on a disk that does not count as full.
func least(all int64) int64 { return min(1<<20, all/16) }

// enough is how many bytes must be free before a full disk counts as having room: a new reserve and some more, so
// that the next write does not fill it again.
func enough(all int64) int64 { return min(diskreserve.Size+2*least(all), all/4) }

// diskEvery is how often the free room of the disk is read.
const diskEvery = 5 * time.Second

// disk is the state of the disk with the registry's files.
type disk struct {
	reserve *diskreserve.Reserve // nil: there is no reserve, and a write fails if the disk is full

	mu    sync.Mutex
	since time.Time // since when the disk is full; zero: it is not
}

// FullDisk describes a full disk.
type FullDisk struct {
	Since    time.Time
	Free     int64 // bytes
	Reserved int64 // bytes that are still reserved
	InMemory int   // boots, leases and events that are only in memory
}

// FullDisk returns nil while the disk has room.
func (r *Registry) FullDisk() *FullDisk {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if r.disk.since.IsZero() {
		return nil
	}
	out := FullDisk{Since: r.disk.since, Reserved: r.disk.reserve.Held(), InMemory: r.pending.count()}
	out.Free, _, _ = r.disk.reserve.Room() // Room was read a moment ago, so it does not fail
	if o := r.memory.now.Load(); o != nil {
		out.InMemory += len(o.boots) + len(o.leases)
	}
	return &out
}

// refused returns an error while the disk is full, for a change that may not use the reserve.
func (r *Registry) refused(ctx context.Context) error {
	if !r.isFull() {
		return nil
	}
	if r.Relieve(ctx); !r.isFull() { // another program may have freed room
		return nil
	}
	return fmt.Errorf("write %s: %w: the rest is reserved for boots of known nodes", r.main.path, ErrFull)
}

func (r *Registry) isFull() bool {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	return !r.disk.since.IsZero()
}

// UpdateReserved is Update for changes that must also work on a full disk: it may use the reserve.
func (r *Registry) UpdateReserved(ctx context.Context, fn func(*Tx) error) error {
	err := r.update(ctx, fn)
	if errors.Is(err, ErrFull) && r.giveReserve() {
		err = r.update(ctx, fn)
	}
	if errors.Is(err, ErrDryRun) {
		return nil
	}
	return err
}

// UpdateBoot is Update for a boot of the machine with a MAC. On a full disk it uses the reserve if the machine is a
// known node. Once the reserve is used up, boots and leases that fn writes stay in memory until there is room.
func (r *Registry) UpdateBoot(ctx context.Context, mac fleet.MAC, fn func(*Tx) error) error {
	err := r.refused(ctx)
	if err == nil {
		err = r.update(ctx, fn)
	}
	if !errors.Is(err, ErrFull) || r.disk.reserve == nil {
		return err
	}
	var known bool
	if e := r.View(ctx, func(tx *Tx) (err error) { known, err = tx.KnownMAC(mac); return err }); e != nil || !known {
		return errors.Join(err, e)
	}
	err = r.UpdateReserved(ctx, fn)
	if !errors.Is(err, ErrFull) {
		return err
	}
	first := r.memory.now.Load() == nil
	if err := r.remember(ctx, fn); err != nil {
		return err
	}
	if first {
		r.log.Error("the disk and its reserve are full: boots and leases are only in memory", "mac", mac,
			"hint", MakeRoom)
	}
	return nil
}

// MakeRoom says what to do about a full disk.
const MakeRoom = "make room: run `pando store gc --grace 1h`, `pando image delete`, or delete other files on this disk"

// giveReserve gives the reserve to the files, and reports whether the failed write should be tried again.
func (r *Registry) giveReserve() bool {
	d := &r.disk
	if d.reserve == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.begin()
	some := d.reserve.Held() / 4
	const shared = 64 << 10
	d.reserve.Give(
		diskreserve.Share{Path: r.main.path + "-shm", Bytes: shared},
		diskreserve.Share{Path: r.events.path + "-shm", Bytes: shared},
		diskreserve.Share{Path: r.main.path + "-wal", Bytes: some},
		diskreserve.Share{Path: r.events.path + "-wal", Bytes: some},
		diskreserve.Share{Path: r.main.path, Bytes: some},
		diskreserve.Share{Path: r.events.path, Bytes: some},
	)
	return true
}

// foundFull records that a write found no room.
func (r *Registry) foundFull() {
	if r.disk.reserve == nil {
		return
	}
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	r.begin()
}

// begin records that the disk is full. Its lock must be held.
func (r *Registry) begin() {
	if !r.disk.since.IsZero() {
		return
	}
	r.disk.since = r.now()
	r.log.Error("the disk is full: known nodes boot from the reserve, changes and uploads are refused",
		"dir", filepath.Dir(r.main.path), "hint", MakeRoom)
}

// WatchDisk calls Relieve periodically until ctx ends.
func (r *Registry) WatchDisk(ctx context.Context) error {
	t := time.NewTicker(diskEvery)
	defer t.Stop()
	for {
		r.Relieve(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Relieve reads the free room of the disk. If there is room, it writes what is only in memory, and takes the reserve.
func (r *Registry) Relieve(ctx context.Context) {
	d := &r.disk
	if d.reserve == nil {
		return
	}
	free, all, err := d.reserve.Room()
	if err != nil {
		r.log.Error("the free room of the disk cannot be read", "err", err)
		return
	}
	d.mu.Lock()
	full := !d.since.IsZero()
	if !full && free < least(all) {
		r.begin()
	}
	d.mu.Unlock()
	if free < least(all) || full && free < enough(all) {
		return
	}
	if full {
		err := r.update(ctx, func(*Tx) error { return nil })
		if err == nil {
			err = r.writePending(ctx)
		}
		if err != nil {
			r.log.Error("boots, leases and events in memory cannot be written to the disk yet", "err", err)
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.reserve.Take()
	if err != nil {
		r.log.Debug("the reserve for a full disk cannot be taken", "err", err)
	}
	none := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if full && !none { // Take did not fail for lack of room
		d.since = time.Time{}
		r.log.Info("the disk has room again: changes are accepted, and what was in memory is written",
			"dir", filepath.Dir(r.main.path), "free", free)
	}
}

// rolled is how many bytes of the oldest events are deleted to make room for new ones on a full disk.
const rolled = 256 << 10

// writeHistory writes to the events file. On a full disk it uses the reserve, and then the room of the oldest events.
func (r *Registry) writeHistory(ctx context.Context, do func(*sql.Tx) error) error {
	err := r.events.write(ctx, do)
	if !errors.Is(err, ErrFull) || !r.giveReserve() {
		return err
	}
	if err = r.events.write(ctx, do); !errors.Is(err, ErrFull) {
		return err
	}
	return r.events.write(ctx, func(tx *sql.Tx) error {
		var total int64
		if err := tx.QueryRowContext(ctx, `SELECT total FROM event_bytes`).Scan(&total); err != nil {
			return err
		}
		if err := shrinkEvents(ctx, tx, total-rolled); err != nil {
			return err
		}
		return do(tx)
	})
}
