package boot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"pando/internal/cache"
)

// errNoRecords says that there is no cache, or none that can be opened.
var errNoRecords = errors.New("there is no cache")

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

// noteBooted has the cache's disk say that a boot that it keeps came up.
func noteBooted(k keptMark) error {
	f, err := os.OpenFile(k.Device, os.O_RDWR, 0)
	if err == nil {
		defer f.Close()
		_, err = onRecords(
			&CacheDisk{Name: k.Device, File: f},
			func(records bootRecords) (string, error) { return "", markBooted(records, k.Boot) },
		)
	}
	if err != nil {
		return fmt.Errorf("note in the cache that this boot came up: %w", err)
	}
	return nil
}
