package initrd

import (
	"context"
	"fmt"

	"pando/internal/disk"
	"pando/internal/hardware"
	"pando/internal/lastboot"
)

// withRecords opens the node's cache for what is kept beside objects, and has do read and write that. A disk that
// stops answering is left behind with do: what that uses must not change any more.
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
