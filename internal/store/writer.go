package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pando/internal/chunk"
)

// Writer adds objects to a Dir. It writes many under temporary names, makes all of them durable by one syncfs, and
// then renames them. That is ten times as fast as an fsync for each file. syncfs reports failed writes since Linux
// 5.8. A Writer must be used by one goroutine.
type Writer struct {
	dir     *Dir
	pending map[chunk.ID]bool // written, not durable yet
	bytes   int64             // bytes of the pending objects
	renamed bool              // some final names are not durable yet
}

// Limits of the pending objects, which a crash loses.
const (
	maxPending      = 2048
	maxPendingBytes = 64 << 20
)

// NewWriter returns a writer. The caller must hold the store's lock until after Close, which removes pending objects.
func (d *Dir) NewWriter() *Writer {
	return &Writer{dir: d, pending: map[chunk.ID]bool{}}
}

// Put adds an object unless the store has it, and reports whether it was new. The object can be read after the next
// Flush and is durable after the next Sync. Put calls Flush when too much is pending.
func (w *Writer) Put(ctx context.Context, stored []byte) (id chunk.ID, isNew bool, err error) {
	id = chunk.Sum(stored)
	if w.pending[id] {
		return id, false, nil
	}
	if there, err := w.Uses(ctx, id, int64(len(stored))); there || err != nil {
		return id, false, err
	}
	w.pending[id] = true
	if err := w.dir.disk.WriteFile(w.temporary(id), stored); err != nil {
		return id, false, fmt.Errorf("write object %s: %w", id, explain(err, w.dir.path))
	}
	w.bytes += int64(len(stored))
	if len(w.pending) >= maxPending || w.bytes >= maxPendingBytes {
		err = w.Flush(ctx)
	}
	return id, true, err
}

// Flush makes the bytes of all pending objects durable and gives them their final names.
func (w *Writer) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(w.pending) == 0 {
		return nil
	}
	if err := w.dir.disk.SyncFS(w.dir.incoming()); err != nil {
		return fmt.Errorf("write %d objects: %w", len(w.pending), err)
	}
	if err := w.upload(ctx); err != nil {
		return err
	}
	for id := range w.pending {
		if err := w.dir.rename(w.temporary(id), w.dir.ObjectPath(id)); err != nil {
			return fmt.Errorf("write object %s: %w", id, explain(err, w.dir.path))
		}
		w.renamed = true
		delete(w.pending, id)
	}
	w.bytes = 0
	return nil
}

// upload uploads the pending objects if the store is in a Remote.
func (w *Writer) upload(ctx context.Context) error {
	if w.dir.cache == nil {
		return nil
	}
	paths := make(map[chunk.ID]string, len(w.pending))
	for id := range w.pending {
		paths[id] = w.temporary(id)
	}
	err := w.dir.cache.upload(ctx, paths)
	if err == nil {
		w.dir.cache.bound.added(w.bytes)
	}
	return err
}

func (w *Writer) temporary(id chunk.ID) string { return filepath.Join(w.dir.incoming(), id.Name()) }

// rename renames a file to its final name, and makes the directory if it does not exist.
func (d *Dir) rename(from, to string) error {
	err := d.disk.Rename(from, to)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := d.disk.Mkdir(filepath.Dir(to)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return d.disk.Rename(from, to)
}

// Uses reports whether the store has an object with this size, and renews its time, because the caller is about to
// write a manifest that names it.
func (w *Writer) Uses(ctx context.Context, id chunk.ID, size int64) (bool, error) {
	if w.dir.cache != nil {
		return w.dir.cache.uses(ctx, id, size)
	}
	info, err := os.Lstat(w.dir.ObjectPath(id))
	if err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return false, nil
	}
	return true, w.freshen(id, info.ModTime())
}

// fresh is the age up to which an object is used again without renewing its time. It is far less than the age that
// Sweep spares.
const fresh = time.Hour

// freshen sets the time of an object to now, so that Sweep spares it until a manifest names it.
func (w *Writer) freshen(id chunk.ID, was time.Time) error {
	now := time.Now()
	if now.Sub(was) < fresh {
		return nil
	}
	if err := w.dir.disk.Touch(w.dir.ObjectPath(id), now); err != nil {
		return fmt.Errorf("use object %s again: %w", id, explain(err, w.dir.path))
	}
	return nil
}

// Sync calls Flush and makes the names durable. A manifest must be written only after that.
func (w *Writer) Sync(ctx context.Context) error {
	if err := w.Flush(ctx); err != nil || !w.renamed {
		return err
	}
	w.renamed = false
	return w.dir.disk.SyncFS(w.dir.objects())
}

// Close discards pending objects.
func (w *Writer) Close() {
	for id := range w.pending {
		_ = w.dir.disk.Remove(w.temporary(id)) // otherwise the next holder of the lock removes it
		delete(w.pending, id)
	}
}
