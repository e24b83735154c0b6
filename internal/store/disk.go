package store

import (
	"os"
	"time"
)

// Disk is the file system below a Dir, for changes. There is one real one; tests use one that fails, fills up or loses
// what was not synced.
type Disk interface {
	WriteFile(name string, data []byte) error // makes or overwrites a file; nothing of it is durable yet
	Rename(from, to string) error
	Remove(name string) error
	Mkdir(name string) error
	Touch(name string, at time.Time) error
	Sync(name string) error  // a file's bytes, or the names in a directory, are durable
	SyncFS(dir string) error // all that was done to the file system of dir is durable
}

// realDisk is the operating system's.
type realDisk struct{}

func (realDisk) WriteFile(name string, data []byte) error { return os.WriteFile(name, data, 0o644) }
func (realDisk) Rename(from, to string) error             { return os.Rename(from, to) }
func (realDisk) Remove(name string) error                 { return os.Remove(name) }
func (realDisk) Mkdir(name string) error                  { return os.Mkdir(name, 0o755) }
func (realDisk) Touch(name string, at time.Time) error    { return os.Chtimes(name, at, at) }
func (realDisk) SyncFS(dir string) error                  { return syncFS(dir) }

func (realDisk) Sync(name string) error { return syncDir(name) }

// OpenDirOn is OpenDir over another disk; what is read is read from the operating system's.
func OpenDirOn(path string, disk Disk) (*Dir, error) {
	d, err := OpenDir(path)
	if err == nil {
		d.disk = disk
	}
	return d, err
}
