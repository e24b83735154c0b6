package lastboot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/rundir"
)

// ErrNoRecords means that there is no cache, or that it cannot be opened.
var ErrNoRecords = errors.New("there is no cache")

// OnRecords calls do with the records of an open cache.
func OnRecords[T any](c *blockapi.CacheDisk, do func(Records) (T, error)) (none T, err error) {
	size, err := c.File.Seek(0, io.SeekEnd)
	if err != nil {
		return none, err
	}
	records, err := cache.OpenRecords(c.File, size, cache.Options{ReadOnly: c.ReadOnly})
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrNoRecords, err)
	}
	return do(records)
}

// NoteBooted records on the cache disk that a kept boot came up.
func NoteBooted(k rundir.KeptMark) error {
	f, err := os.OpenFile(k.Device, os.O_RDWR, 0)
	if err == nil {
		defer f.Close()
		_, err = OnRecords(
			&blockapi.CacheDisk{Name: k.Device, File: f},
			func(records Records) (string, error) { return "", markBooted(records, k.Boot) },
		)
	}
	if err != nil {
		return fmt.Errorf("note in the cache that this boot came up: %w", err)
	}
	return nil
}
