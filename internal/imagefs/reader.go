package imagefs

import (
	"context"
	"fmt"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

// Reader reads a version's root file system from the store. It must be used by one goroutine.
type Reader struct {
	ctx   context.Context //nolint:containedctx // io.ReaderAt takes no context; a Reader lives for one call
	store *store.Dir
	root  *chunk.Root
	pages map[int]*chunk.Page

	chunks map[chunk.ID][]byte // raw bytes of recently read chunks
	recent []chunk.ID          // the same chunks, oldest first

	decoder chunk.Decoder
}

// recentChunks is how many unpacked chunks are kept: 4 MiB with chunks of 64 KiB. A walk of a file system reads the
// same inode chunks again, and a pack reads other parts of the same chunk.
const recentChunks = 64

// Open reads the index root of a version. Pages and chunks are read on demand.
func Open(ctx context.Context, d *store.Dir, m image.Manifest) (*Reader, error) {
	stored, err := d.Get(ctx, m.Root.Index)
	if err != nil {
		return nil, fmt.Errorf("index root: %w", err)
	}
	root, err := chunk.DecodeRoot(stored)
	if err != nil {
		return nil, err
	}
	if root.RawSize() != m.Root.Size {
		return nil, fmt.Errorf("the index covers %d bytes, the manifest says %d", root.RawSize(), m.Root.Size)
	}
	return &Reader{ctx: ctx, store: d, root: root, pages: map[int]*chunk.Page{}, chunks: map[chunk.ID][]byte{}}, nil
}

// Size returns the size of the file system in bytes.
func (r *Reader) Size() int64 { return r.root.RawSize() }

// Entry returns the index entry that covers an offset, and the offset at which its extent starts.
func (r *Reader) Entry(off int64) (chunk.Entry, int64, error) {
	i, start := r.root.Find(off)
	page, ok := r.pages[i]
	if !ok {
		stored, err := r.store.Get(r.ctx, r.root.Pages[i].ID)
		if err != nil {
			return chunk.Entry{}, 0, fmt.Errorf("index page %d: %w", i, err)
		}
		if page, err = r.root.DecodePage(&r.decoder, i, stored); err != nil {
			return chunk.Entry{}, 0, err
		}
		r.pages[i] = page
	}
	n, at := page.Find(off - start)
	return page.Entries[n], start + at, nil
}

// zero reports whether the block at an offset is zeros without an object.
func (r *Reader) zero(off int64) (bool, error) {
	e, _, err := r.Entry(off)
	return e.Codec == chunk.Zero, err
}

// Block reads block n into b. ok is false for a block of zeros, which has no object, and for one beyond the end.
func (r *Reader) Block(b []byte, n uint32) (ok bool, err error) {
	off := int64(n) * chunk.BlockSize
	if off >= r.root.RawSize() {
		return false, nil
	}
	if zero, err := r.zero(off); err != nil || zero {
		return false, err
	}
	_, err = r.ReadAt(b, off)
	return err == nil, err
}

// ReadAt fills b. A read beyond the end is an error.
func (r *Reader) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		at := off + int64(done)
		if at < 0 || at >= r.root.RawSize() {
			return done, fmt.Errorf("read root at %d: it has %d bytes", at, r.root.RawSize())
		}
		e, start, err := r.Entry(at)
		if err != nil {
			return done, err
		}
		raw, err := r.chunk(e)
		if err != nil {
			return done, fmt.Errorf("read root at %d: %w", at, err)
		}
		if raw == nil {
			n := min(len(b)-done, int(start+int64(e.RawSize)-at))
			clear(b[done : done+n])
			done += n
			continue
		}
		done += copy(b[done:], raw[at-start:])
	}
	return done, nil
}

// chunk returns the raw bytes of an entry; nil for zeros.
func (r *Reader) chunk(e chunk.Entry) ([]byte, error) {
	if e.Codec == chunk.Zero {
		return nil, nil
	}
	if raw, ok := r.chunks[e.ID]; ok {
		return raw, nil
	}
	stored, err := r.store.Get(r.ctx, e.ID)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, e.RawSize)
	if err := r.decoder.Decode(raw, stored, e.Codec); err != nil {
		return nil, err
	}
	if len(r.recent) >= recentChunks {
		delete(r.chunks, r.recent[0])
		r.recent = r.recent[1:]
	}
	r.chunks[e.ID], r.recent = raw, append(r.recent, e.ID)
	return raw, nil
}
