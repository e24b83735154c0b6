package build

import (
	"bytes"
	"context"

	"github.com/klauspost/compress/zstd"

	"pando/internal/image"
)

// before returns the manifest of the version that the tree is a copy of, if both have the same kernel. A version does
// not store what was below /boot, such as the kernel's build options, so the build derives them from this manifest.
func (b *builder) before(release string) (image.Manifest, bool) {
	if b.Parent == "" {
		return image.Manifest{}, false
	}
	v, err := b.Store.GetVersion(b.Parent)
	if err != nil {
		return image.Manifest{}, false // without a known parent the build only lacks hints
	}
	m, err := image.Decode(v.Manifest)
	if err != nil || m.Kernel.Release != release {
		return image.Manifest{}, false
	}
	return m, true
}

// largestDrivers bounds the unpacked size of a driver archive that packedBefore searches, in bytes.
const largestDrivers = 512 << 20

// packedBefore reports whether the parent version has .ko.xz modules, which its kernel unpacks itself. The copy then
// keeps them packed. Otherwise its drivers would differ from the parent's, and running nodes would need a new
// initramfs.
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
