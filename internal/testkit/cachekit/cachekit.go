package cachekit

import (
	"errors"
	"os"
	"path/filepath"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/testkit/nodekit"
)

// NewDisk returns an empty cache on a disk of 80 MiB.
func NewDisk(t nodekit.T) *blockapi.CacheDisk {
	t.Helper()
	const size = 80 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err == nil {
		t.Cleanup(func() { f.Close() })
		err = errors.Join(f.Truncate(size), cache.Format(f, size))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &blockapi.CacheDisk{Name: f.Name(), Size: size, File: f}
}
