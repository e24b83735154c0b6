package build

import (
	"bytes"
	"context"

	"github.com/klauspost/compress/zstd"

	"pando/internal/image"
)

// before is the manifest of the version that a tree is a copy of, if it has the same kernel. What was below /boot,
// such as the options of the kernel's build, is in no version: what is known by them is taken from what that
// version became.
func (b *builder) before(release string) (image.Manifest, bool) {
	if b.Parent == "" {
		return image.Manifest{}, false
	}
	v, err := b.Store.GetVersion(b.Parent)
	if err != nil {
		return image.Manifest{}, false // it is only asked for what it was
	}
	m, err := image.Decode(v.Manifest)
	if err != nil || m.Kernel.Release != release {
		return image.Manifest{}, false
	}
	return m, true
}

// largestDrivers bounds what is unpacked of a part of K to look into it, in bytes.
const largestDrivers = 512 << 20

// packedBefore reports whether that version has modules that its kernel unpacks. Otherwise a copy would have other
// drivers than what it is a copy of: a fifth larger, and another K, for which a node that runs needs a new kernel.
func (b *builder) packedBefore(ctx context.Context, release string) bool {
	m, ok := b.before(release)
	if !ok {
		return false
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largestDrivers))
	if err != nil {
		return false
	}
	defer dec.Close()
	for _, d := range m.Drivers {
		packed, err := b.Store.Get(ctx, d.Object)
		if err != nil {
			continue
		}
		if raw, err := dec.DecodeAll(packed, nil); err == nil && bytes.Contains(raw, []byte(".ko.xz")) {
			return true
		}
	}
	return false
}
