package blockapi

import (
	"os"

	"golang.org/x/sys/unix"
)

// CacheDisk is a cache on a disk, as init passes it to the daemons. They get an open descriptor, because the
// directory that they are chrooted into has no devices.
type CacheDisk struct {
	Name     string   `json:"name"`                // the device's name, for messages
	Size     int64    `json:"size"`                // bytes of the device that the cache may use
	ReadOnly bool     `json:"read_only,omitempty"` // the device takes no writes
	File     *os.File `json:"-"`
}

// KernelFile is the file with the kernel and the initramfs that the node was started with. The daemon serves them to
// machines that boot. It does not verify them: who loads them does.
type KernelFile struct {
	Objects []KernelObject `json:"objects"` // in the order of the file, without gaps
	File    *os.File       `json:"-"`
}

// KernelObject is a part of a KernelFile.
type KernelObject struct {
	ID   string `json:"id"` // its SHA-256, 64 hex digits
	Size int64  `json:"size"`
}

// Files returns the descriptors of files that a daemon with this configuration inherits.
func (c Config) Files() (out []*os.File) {
	if c.Disk != nil {
		out = append(out, c.Disk.File)
	}
	if c.Pending != nil {
		out = append(out, c.Pending.File)
	}
	if c.Kernel != nil {
		out = append(out, c.Kernel.File)
	}
	return out
}

// TakeFiles sets the files that Files listed in the parent process. The first has descriptor fd.
func (c *Config) TakeFiles(fd int) {
	take := func(name string) *os.File {
		unix.CloseOnExec(fd)
		fd++
		return os.NewFile(uintptr(fd-1), name)
	}
	if c.Disk != nil {
		c.Disk.File = take(c.Disk.Name)
	}
	if c.Pending != nil {
		c.Pending.File = take(PendingName)
	}
	if c.Kernel != nil {
		c.Kernel.File = take("kernel")
	}
}
