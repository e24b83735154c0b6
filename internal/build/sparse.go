package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// copySparse copies size bytes of a file to a place in another one, which has zeros there. What is zeros is not
// written, and what is a hole is not read either: a hole of 100 GB takes no time.
func copySparse(ctx context.Context, out io.WriterAt, at int64, f *os.File, size int64, buf []byte) error {
	if info, err := f.Stat(); err != nil || info.Size() < size {
		return errors.Join(err, fmt.Errorf("it was %d bytes long, and ends before: %w", size, io.ErrUnexpectedEOF))
	}
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, end, err := nextData(f, off, size)
		if err != nil {
			return err
		}
		for off = start; off < end; {
			b := buf[:min(int64(len(buf)), end-off)]
			if _, err := f.ReadAt(b, off); err != nil {
				return fmt.Errorf("it was %d bytes long, and ends before: %w", size, err)
			}
			if !chunk.IsZero(b) {
				if _, err := out.WriteAt(b, at+off); err != nil {
					return err
				}
			}
			if off += int64(len(b)); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

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
