package initrd

import (
	"context"
	"fmt"

	"pando/internal/disk"
	"pando/internal/hardware"
	"pando/internal/lastboot"
)

// withRecords calls do with the records of the node's cache. If the disk does not answer in time, withRecords returns
// while do may still run: data that do uses must not change any more.
func withRecords[T any](ctx context.Context, k *cacheDisk, do func(lastboot.Records) (T, error)) (T, error) {
	var none T
	c, err := k.openCacheDisk(ctx, hardware.Sysfs, 0)
	if err != nil {
		return none, fmt.Errorf("%w: %w", lastboot.ErrNoRecords, err)
	}
	return disk.Within(ctx, c.Name, k.diskWait, func() (T, error) {
		defer c.File.Close()
		return lastboot.OnRecords(c, do)
	})
}
