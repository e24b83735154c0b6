package initrd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/cache"
)

// newCacheDisk is an empty cache on a disk.
func newCacheDisk(t *testing.T) *blockapi.CacheDisk {
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
