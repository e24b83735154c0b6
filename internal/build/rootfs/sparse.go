package rootfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextData returns where a file has its next data at or after an offset; start and end are size if it has none. On a
// file system that does not report holes, all of the file is data.
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
