package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pando/internal/chunk"
)

// Operations of a Dir on the files of the store, which are in its directory or in the Remote that it is a cache of.

// Refresh removes the cached copy of an object that does not match its name. It is called after a client got wrong
// bytes, and does nothing if the directory is no cache.
func (d *Dir) Refresh(id chunk.ID) {
	if d.cache == nil {
		return
	}
	if b, err := os.ReadFile(d.ObjectPath(id)); err == nil && id.Verify(b) != nil {
		d.cache.forget(id)
	}
}

// stored reads an object from the store itself, not from a cache.
func (d *Dir) stored(ctx context.Context, id chunk.ID) ([]byte, error) {
	if d.cache != nil {
		return d.cache.read(ctx, id)
	}
	return d.Get(ctx, id)
}

// removeObjects permanently removes objects. The lock must be held. A missing object is no error.
func (d *Dir) removeObjects(ctx context.Context, ids ...chunk.ID) error {
	if d.cache != nil {
		return d.cache.remove(ctx, ids...)
	}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ignoreMissing(d.disk.Remove(d.ObjectPath(id))); err != nil {
			return err
		}
	}
	return nil
}

// objectFile is a file below objects.
type objectFile struct {
	id       chunk.ID
	ok       bool   // the file has the name and the place of an object
	name     string // path, or name in the Remote
	size     int64
	modified time.Time
}

// eachFile calls each for every file below objects.
func (d *Dir) eachFile(ctx context.Context, each func(objectFile) error) error {
	if d.cache != nil {
		return d.cache.remote.List(ctx, objectsPrefix, func(f RemoteFile) error {
			id, ok := objectOf(f.Name)
			return errors.Join(each(objectFile{id, ok, f.Name, f.Size, f.Modified}), ctx.Err())
		})
	}
	return filepath.WalkDir(d.objects(), func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := f.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		id, err := chunk.ParseID(f.Name())
		return errors.Join(
			each(objectFile{id, err == nil && path == d.ObjectPath(id), path, info.Size(), info.ModTime()}),
			ctx.Err(),
		)
	})
}

// readFile reads a manifest or sidecar; putFile and removeFile write and remove one.
func (d *Dir) readFile(path string) ([]byte, error) {
	if d.cache != nil {
		return d.cache.sidecars.read(path)
	}
	return os.ReadFile(path)
}

func (d *Dir) putFile(path string, data []byte) error {
	if d.cache != nil {
		return d.cache.sidecars.write(path, data)
	}
	return d.writeFile(path, data)
}

func (d *Dir) removeFile(path string) error {
	if d.cache != nil {
		return d.cache.sidecars.remove(path)
	}
	return d.disk.Remove(path)
}

// askAgain makes the next read of these manifests or sidecars read the Remote, not a recent answer.
func (d *Dir) askAgain(paths ...string) {
	if d.cache != nil {
		d.cache.sidecars.askAgain(paths)
	}
}

// manifestFiles lists the names of manifests and sidecars.
func (d *Dir) manifestFiles() (out []string, err error) {
	if d.cache != nil {
		return d.cache.sidecars.names()
	}
	files, err := os.ReadDir(d.manifests())
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out, err
}
