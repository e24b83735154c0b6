package build

import (
	"slices"
	"testing"

	"pando/internal/image"
)

// A file system that nobody can look into comes as it lies, but for zeros.
func TestWholeOrderAsItLies(t *testing.T) {
	if o := whole(newRootMap(5*4096, nil)); !slices.Equal(o.Extents, []image.Extent{{Start: 0, Blocks: 5}}) ||
		o.Booted != 5 {
		t.Errorf("%+v", o)
	}
}
