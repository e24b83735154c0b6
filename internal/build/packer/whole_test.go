package packer

import (
	"slices"
	"testing"

	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
)

// A file system of an unknown kind is ordered by block number, without zeros.
func TestWholeOrderAsItLies(t *testing.T) {
	if o := whole(imagefs.NewMap(5*4096, nil)); !slices.Equal(o.Extents, []bootpack.Extent{{Start: 0, Blocks: 5}}) ||
		o.Booted != 5 {
		t.Errorf("%+v", o)
	}
}
