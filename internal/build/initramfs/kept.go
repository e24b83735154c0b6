package initramfs

import (
	"math"

	"pando/internal/api"
)

// Head returns the header of the file api.KernelPath. Kernel and shared initramfs have to follow, size bytes together,
// then the shared initramfs once more; its first record (Trailer) ends the archive. It returns nil if the format cannot
// express the size.
func Head(size int64) []byte {
	if size > math.MaxUint32 {
		return nil
	}
	c := newCPIO()
	c.header(1, modeFile|0o400, int(size), api.KernelPath)
	return c.buf.Bytes()
}

// Trailer returns the record that ends an archive.
func Trailer() []byte {
	c := newCPIO()
	c.header(0, 0, 0, "TRAILER!!!")
	return c.buf.Bytes()
}
