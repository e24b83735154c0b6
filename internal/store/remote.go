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

// Remote is a store in a bucket; a directory of this machine is then only its cache. Names are the paths of the files
// of a Dir, with slashes. After Put, every reader gets the new bytes, and List includes the name.
type Remote interface {
	// Name is for errors: "s3://bucket/prefix".
	Name() string
	// Get returns the bytes of a name. The error is fs.ErrNotExist if the name does not exist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Put writes all of data under a name, or changes nothing. The data is durable when Put returns.
	Put(ctx context.Context, name string, data []byte) error
	// Stat describes a name. The error is fs.ErrNotExist if the name does not exist.
	Stat(ctx context.Context, name string) (RemoteFile, error)
	// Touch sets the time of a name to now.
	Touch(ctx context.Context, name string) error
	// List calls each for every name that starts with prefix.
	List(ctx context.Context, prefix string, each func(RemoteFile) error) error
	// Remove removes names. A missing name is no error.
	Remove(ctx context.Context, names ...string) error
	// Lock makes this process the only writer, or returns a *LockedError. An existing lock with the same owner is
	// that of this process or of one that has died.
	Lock(ctx context.Context, owner, purpose string) (Lease, error)
}

// RemoteFile is one name of a Remote.
type RemoteFile struct {
	Name     string
	Size     int64 // bytes
	Modified time.Time
}

// Lease is the right to write to a Remote. It is renewed until it is released or lost.
type Lease interface {
	Held() error // nil while no other process can have the lease
	Release()
}

// OpenCache opens a store in a Remote. The directory at path caches what was read and written, with at most size
// bytes of objects. It may be removed at any time, and must not contain anything else.
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

// Remote returns the Remote of the store; nil: the store is in its directory.
func (d *Dir) Remote() Remote {
	if d.cache == nil {
		return nil
	}
	return d.cache.remote
}

// remoteTime bounds how long a caller without a context waits for a Remote, including the Remote's own retries.
const remoteTime = time.Minute

func remoteContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), remoteTime)
}

// Prefixes of the names in a Remote.
const objectsPrefix, manifestsPrefix = "objects/", "manifests/"

// ObjectName returns the name of an object in a Remote, which is also its path in the directory of a Dir.
func ObjectName(id chunk.ID) string {
	name := id.Name()
	return objectsPrefix + name[:2] + "/" + name
}

// objectOf returns the object with a name, and whether it is the name of an object.
func objectOf(name string) (chunk.ID, bool) {
	id, err := chunk.ParseID(name[strings.LastIndexByte(name, '/')+1:])
	return id, err == nil && ObjectName(id) == name
}

// remoteName returns the name in a Remote of a file in the directory of a Dir.
func (d *Dir) remoteName(path string) string {
	name, err := filepath.Rel(d.path, path)
	if err != nil { // both paths begin with d.path
		panic("store: " + err.Error())
	}
	return filepath.ToSlash(name)
}
