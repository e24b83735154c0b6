package imagefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

// Extract writes the root file system of a version from the store into a file. It verifies every object; zeros become
// holes. each is called with the number of bytes written so far.
func Extract(ctx context.Context, d *store.Dir, m image.Manifest, file string, each func(bytes int64)) (err error) {
	r, err := Open(ctx, d, m)
	if err != nil {
		return fmt.Errorf("write root: %w", err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write root: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write root: %w", err)
		}
	}()
	if err := f.Truncate(m.Root.Size); err != nil {
		return err
	}
	for off := int64(0); off < m.Root.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.writeChunk(f, off)
		if err != nil {
			return err
		}
		off += n
		each(off)
	}
	return f.Sync()
}

// writeChunk writes the chunk at an offset and returns its size.
func (r *Reader) writeChunk(w io.WriterAt, off int64) (int64, error) {
	e, start, err := r.Entry(off)
	if err != nil {
		return 0, err
	}
	if start != off {
		return 0, fmt.Errorf("a chunk starts at %d, not at %d", start, off)
	}
	if e.Codec == chunk.Zero {
		return int64(e.RawSize), nil
	}
	raw, err := r.chunk(e)
	if err != nil {
		return 0, err
	}
	_, err = w.WriteAt(raw, off)
	return int64(e.RawSize), err
}
