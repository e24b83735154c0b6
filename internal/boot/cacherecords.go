package boot

import (
	"context"
	"io"

	"pando/internal/cache"
)

// cacheRecords opens the node's cache for what is kept beside objects; done closes it. It is nil when the server sent
// no drivers of disks, because the group keeps no cache on them.
func (m *machine) cacheRecords(ctx context.Context) (records *cache.Disk, done func(), err error) {
	if m.disks == nil {
		return nil, nil, nil
	}
	c, err := m.openCacheDisk(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	size, err := c.File.Seek(0, io.SeekEnd)
	if err == nil {
		records, err = cache.Open(c.File, size, cache.Options{ReadOnly: c.ReadOnly})
	}
	if err != nil {
		c.File.Close()
		return nil, nil, err
	}
	return records, func() { c.File.Close() }, nil
}
