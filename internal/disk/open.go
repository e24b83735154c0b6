package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/hardware"
)

// OpenCacheFile opens the device exclusively, so that the kernel refuses to let the image mount or format it. It sets
// c.File and c.ReadOnly.
func OpenCacheFile(c *blockapi.CacheDisk, sys string) (err error) {
	c.ReadOnly = hardware.SysValue(filepath.Join(sys, "class/block", filepath.Base(c.Name)), "ro") == "1"
	if !c.ReadOnly {
		c.File, err = os.OpenFile(c.Name, os.O_RDWR|unix.O_EXCL, 0)
		c.ReadOnly = errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	}
	if c.ReadOnly {
		c.File, err = os.OpenFile(c.Name, os.O_RDONLY|unix.O_EXCL, 0)
	}
	return err
}

// MakeNewCache makes a cache in a partition that has the cache's name and contains no cache, and returns a message. A
// device without that name is left alone. If it fails, it closes c.File.
func MakeNewCache(ctx context.Context, c *blockapi.CacheDisk, sys string, wait time.Duration) (string, error) {
	if c.ReadOnly || PartitionName(sys, filepath.Base(c.Name)) != cache.PartitionName {
		return "", nil
	}
	made, err := Within(ctx, c.Name, wait, func() (string, error) { return newCache(c.File, c.Name) })
	if err != nil {
		c.File.Close()
	}
	return made, err
}
