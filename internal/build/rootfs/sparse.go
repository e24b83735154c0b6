package rootfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextData is where a file has bytes from an offset on; both are size if there are none. A file system that knows
// of no holes says that all is bytes.
func nextData(f *os.File, off, size int64) (start, end int64, err error) {
	start, err = f.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL):
		return off, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = f.Seek(start, unix.SEEK_HOLE)
	return min(start, size), min(end, size), err
}
