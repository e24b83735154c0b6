package store

import (
	"os"
	"time"
)

// Disk is the file system below a Dir, as far as a Dir changes it. Tests use one that fails, fills up, or loses what
// was not synced.
type Disk interface {
	WriteFile(name string, data []byte) error // makes or overwrites a file; the file is not durable yet
	Rename(from, to string) error
	Remove(name string) error
	Mkdir(name string) error
	Touch(name string, at time.Time) error
	Sync(name string) error  // makes a file's bytes, or the names in a directory, durable
	SyncFS(dir string) error // makes all earlier changes of the file system of dir durable
}

// realDisk is the operating system's file system.
type realDisk struct{}

func (realDisk) WriteFile(name string, data []byte) error { return os.WriteFile(name, data, 0o644) }
func (realDisk) Rename(from, to string) error             { return os.Rename(from, to) }
func (realDisk) Remove(name string) error                 { return os.Remove(name) }
func (realDisk) Mkdir(name string) error                  { return os.Mkdir(name, 0o755) }
func (realDisk) Touch(name string, at time.Time) error    { return os.Chtimes(name, at, at) }
func (realDisk) SyncFS(dir string) error                  { return syncFS(dir) }

func (realDisk) Sync(name string) error { return syncDir(name) }

// OpenDirOn is OpenDir with another Disk for changes. Files are still read through the operating system.
func OpenDirOn(path string, disk Disk) (*Dir, error) {
	d, err := OpenDir(path)
	if err == nil {
		d.disk = disk
	}
	return d, err
}
