package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pando/internal/chunk"
)

// Dir is a store in a directory, read without a lock; a writer must hold the lock (see Lock) and use a Writer. A file
// gets its final name only when its bytes are on disk, and a manifest only when all that it needs is there. An
// interrupted writer leaves files that the next writer of the same bytes reuses.
type Dir struct {
	path  string
	disk  Disk
	cache *remoteCache // nil: the directory is the store itself, not a cache of a Remote

	decoder  chunk.Decoder // for index pages
	verified verified      // files that CheckFile has read
}

// OpenDir opens the store at path and creates missing directories.
func OpenDir(path string) (*Dir, error) {
	d := &Dir{path: path, disk: realDisk{}}
	for _, sub := range []string{d.objects(), d.manifests(), d.incoming()} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	return d, nil
}

// Path returns the directory of the store.
func (d *Dir) Path() string { return d.path }

func (d *Dir) objects() string   { return filepath.Join(d.path, "objects") }
func (d *Dir) manifests() string { return filepath.Join(d.path, "manifests") }
func (d *Dir) incoming() string  { return filepath.Join(d.path, "incoming") }

// PutBeside atomically replaces a file in the store's top directory. When it returns, this and all earlier changes of
// the file system are durable. The caller must hold the lock.
func (d *Dir) PutBeside(name string, data []byte) error {
	if err := d.writeFile(filepath.Join(d.path, name), data); err != nil {
		return err
	}
	return d.disk.SyncFS(d.path)
}

// ObjectPath returns the path of an object's file, whether it exists or not. Nothing may write to it.
func (d *Dir) ObjectPath(id chunk.ID) string {
	name := id.Name()
	return filepath.Join(d.objects(), name[:2], name)
}

// Open opens an object for a sender that does not read the content. The error is fs.ErrNotExist if the store does not
// have it. The bytes are not verified; the receiver must verify them.
func (d *Dir) Open(id chunk.ID) (*os.File, error) {
	f, err := os.Open(d.ObjectPath(id))
	if d.cache != nil {
		f, err = d.cache.open(id, f, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", id, bare(err))
	}
	return f, nil
}

// Get returns an object's stored bytes, verified. The error is fs.ErrNotExist if the store does not have the object,
// and a *chunk.WrongBytesError if the file does not match the object's name.
func (d *Dir) Get(ctx context.Context, id chunk.ID) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(d.ObjectPath(id))
	if d.cache != nil && (err != nil || id.Verify(b) != nil) {
		return d.cache.get(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", id, bare(err))
	}
	if err := id.Verify(b); err != nil {
		return nil, err
	}
	return b, nil
}

// Stat returns the stored size of an object in bytes, and whether the store has it.
func (d *Dir) Stat(id chunk.ID) (size int64, ok bool) {
	if d.cache != nil {
		return d.cache.stat(id)
	}
	return d.statFile(id)
}

func (d *Dir) statFile(id chunk.ID) (size int64, ok bool) {
	info, err := os.Lstat(d.ObjectPath(id))
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// bare removes the path from a file error, because the message already has the object's name.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
