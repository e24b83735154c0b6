package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// A Writer adds objects to a Dir. It writes many under temporary names, makes all of them durable at once,
// which is much faster than one by one, and then renames them. It is used by one goroutine.
type Writer struct {
	dir     *Dir
	pending map[chunk.ID]*os.File // written, not yet durable
	bytes   int64                 // in pending
	dirty   map[string]bool       // directories with renames that are not durable yet
}

// The limits of what is pending: open files, and bytes that a crash loses.
const (
	maxPending      = 256
	maxPendingBytes = 32 << 20
)

// NewWriter returns a writer; the caller holds the store's lock until it is done with it. Close frees what
// was not flushed.
func (d *Dir) NewWriter() *Writer {
	return &Writer{dir: d, pending: map[chunk.ID]*os.File{}, dirty: map[string]bool{}}
}

// Put adds an object, unless the store has it, and reports whether it was new. It is readable after the
// next Flush and durable after the next Sync; Put flushes by itself now and then.
func (w *Writer) Put(ctx context.Context, stored []byte) (id chunk.ID, isNew bool, err error) {
	id = chunk.Sum(stored)
	if w.pending[id] != nil {
		return id, false, nil
	}
	if size, ok := w.dir.Stat(id); ok && size == int64(len(stored)) {
		return id, false, nil
	}
	f, err := os.OpenFile(filepath.Join(w.dir.incoming(), id.Name()), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return id, false, fmt.Errorf("write object %s: %w", id, explain(err, w.dir.path))
	}
	w.pending[id] = f
	if _, err := f.Write(stored); err != nil {
		return id, false, fmt.Errorf("write object %s: %w", id, explain(err, w.dir.path))
	}
	w.bytes += int64(len(stored))
	if len(w.pending) >= maxPending || w.bytes >= maxPendingBytes {
		err = w.Flush(ctx)
	}
	return id, true, err
}

// Flush makes the bytes of all pending objects durable and gives them their names.
func (w *Writer) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := syncFiles(w.pending); err != nil {
		return fmt.Errorf("write %d objects: %w", len(w.pending), explain(err, w.dir.path))
	}
	for id, f := range w.pending {
		to := w.dir.ObjectPath(id)
		if err := w.rename(f.Name(), to); err != nil {
			return fmt.Errorf("write object %s: %w", id, explain(err, w.dir.path))
		}
		f.Close()
		delete(w.pending, id)
	}
	w.bytes = 0
	return nil
}

// rename moves a file to its final name, whose directory it makes if need be.
func (w *Writer) rename(from, to string) error {
	parent := filepath.Dir(to)
	if !w.dirty[parent] {
		if err := os.Mkdir(parent, 0o755); err == nil {
			w.dirty[filepath.Dir(parent)] = true
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
		w.dirty[parent] = true
	}
	return os.Rename(from, to)
}

// Sync flushes, and makes the names durable too. A manifest is written after it, never before.
func (w *Writer) Sync(ctx context.Context) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	for dir := range w.dirty {
		if err := syncDir(dir); err != nil {
			return err
		}
		delete(w.dirty, dir)
	}
	return nil
}

// Close throws away what was not flushed.
func (w *Writer) Close() {
	for id, f := range w.pending {
		f.Close()
		os.Remove(f.Name())
		delete(w.pending, id)
	}
}

// syncFiles makes several files durable. The first pass only starts the writes, so that the disk has all of
// them in its queue before the first wait.
func syncFiles(files map[chunk.ID]*os.File) error {
	for _, f := range files {
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // a hint; fsync decides
	}
	const workers = 8
	queue := make(chan *os.File)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for f := range queue {
				errs[i] = errors.Join(errs[i], f.Sync())
			}
		})
	}
	for _, f := range files {
		queue <- f
	}
	close(queue)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
