package store

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/chunk"
)

// Remote is where a store is kept when a directory of this machine is only a cache of it: a bucket. Its names are
// those of the files of a Dir, with slashes. What was put is read by everybody from then on, and listed.
type Remote interface {
	// Name is for errors: "s3://bucket/prefix".
	Name() string
	// Get returns the bytes of a name. The error is fs.ErrNotExist when there is no such name.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Put gives a name all of data, or leaves it as it was. It is durable when Put returns.
	Put(ctx context.Context, name string, data []byte) error
	// Stat describes what a name has. The error is fs.ErrNotExist when there is no such name.
	Stat(ctx context.Context, name string) (RemoteFile, error)
	// Touch makes a name one that was put now.
	Touch(ctx context.Context, name string) error
	// List tells of each name that starts with prefix.
	List(ctx context.Context, prefix string, each func(RemoteFile) error) error
	// Remove removes names. That one does not exist is no error.
	Remove(ctx context.Context, names ...string) error
	// Lock makes this process the only writer, or returns a *LockedError. Whoever has the same owner is this
	// process, or dead.
	Lock(ctx context.Context, owner, purpose string) (Lease, error)
}

// RemoteFile is one name of a Remote.
type RemoteFile struct {
	Name     string
	Size     int64 // bytes
	Modified time.Time
}

// Lease is the right to write to a Remote for as long as it is renewed, which it is until it is released.
type Lease interface {
	Held() error // nil while nobody else can have it
	Release()
}

// OpenCache opens a store that is kept in a Remote. The directory at path holds copies of what was read and
// written, at most size bytes of objects; it may be removed at any time, and nothing else may be in it.
func OpenCache(path string, remote Remote, size int64) (*Dir, error) {
	d, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	if d.cache, err = newRemoteCache(d, remote, size); err != nil {
		return nil, fmt.Errorf("open cache of %s: %w", remote.Name(), err)
	}
	return d, nil
}

// Remote is where the store is kept; nil: in its directory.
func (d *Dir) Remote() Remote {
	if d.cache == nil {
		return nil
	}
	return d.cache.remote
}

// remoteTime bounds what a caller without a context waits for a Remote, its own repetitions included.
const remoteTime = time.Minute

func remoteContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), remoteTime)
}

// The names of a Remote.
const objectsPrefix, manifestsPrefix = "objects/", "manifests/"

// ObjectName is the name of an object in a Remote, and its path below the directory of a Dir.
func ObjectName(id chunk.ID) string {
	name := id.Name()
	return objectsPrefix + name[:2] + "/" + name
}

// objectOf is the object of a name; false: it is none.
func objectOf(name string) (chunk.ID, bool) {
	id, err := chunk.ParseID(name[strings.LastIndexByte(name, '/')+1:])
	return id, err == nil && ObjectName(id) == name
}

// remoteName is the name in a Remote of a file below the directory of a Dir.
func (d *Dir) remoteName(path string) string {
	name, err := filepath.Rel(d.path, path)
	if err != nil { // both were joined from d.path
		panic("store: " + err.Error())
	}
	return filepath.ToSlash(name)
}
