package boot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"pando/internal/cache"
)

// errNoRecords says that there is no cache, or none that can be opened.
var errNoRecords = errors.New("there is no cache")

// withRecords opens the node's cache for what is kept beside objects, and has do read and write that. A disk that
// stops answering is left behind with do: what that uses must not change any more.
func withRecords[T any](ctx context.Context, m *machine, do func(bootRecords) (T, error)) (T, error) {
	var none T
	c, err := m.openCacheDisk(ctx, sysfs, 0)
	if err != nil {
		return none, fmt.Errorf("%w: %w", errNoRecords, err)
	}
	return within(ctx, c.Name, func() (T, error) {
		defer c.File.Close()
		return onRecords(c, do)
	})
}

// onRecords is withRecords for a cache that is open, and waits for it.
func onRecords[T any](c *CacheDisk, do func(bootRecords) (T, error)) (none T, err error) {
	size, err := c.File.Seek(0, io.SeekEnd)
	if err != nil {
		return none, err
	}
	records, err := cache.OpenRecords(c.File, size, cache.Options{ReadOnly: c.ReadOnly})
	if err != nil {
		return none, fmt.Errorf("%w: %w", errNoRecords, err)
	}
	return do(records)
}
