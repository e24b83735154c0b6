package blockdev

import (
	"context"
	"errors"
	"fmt"

	"pando/internal/chunk"
)

// ReadAt fills p with the raw bytes from off. It waits for a source until ctx is done. An error that is
// ErrBroken is for ever.
func (d *Device) ReadAt(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > d.Size() || int64(len(p)) > d.Size()-off {
		return fmt.Errorf("read %d bytes at %d: outside of %d bytes", len(p), off, d.Size())
	}
	extents, err := d.extents(ctx, off, int64(len(p)))
	if err != nil {
		return fmt.Errorf("read %d bytes at %d: %w", len(p), off, err)
	}
	// Start what is missing before waiting for any of it: a request of 128 KiB spans two or three chunks.
	calls := make([]*call[[]byte], len(extents))
	for i, e := range extents {
		if e.Codec != chunk.Zero {
			calls[i] = d.chunk(e.Entry)
		}
	}
	for i, e := range extents {
		// The part of p that this extent fills.
		from := max(0, e.start-off)
		dst := p[from:min(int64(len(p)), e.start+int64(e.RawSize)-off)]
		if calls[i] == nil {
			clear(dst)
			d.opts.Served("zero", len(dst))
			continue
		}
		raw, err := calls[i].wait(ctx)
		if err != nil {
			return fmt.Errorf("read %d bytes at %d: %w", len(p), off, err)
		}
		copy(dst, raw[off+from-e.start:])
		if calls[i].kept {
			d.opts.Served("cache", len(dst))
		}
	}
	d.readAhead(off, int64(len(p)))
	return nil
}

// chunk returns a call for the raw bytes of e, joining one that runs and starting one if there is none.
func (d *Device) chunk(e chunk.Entry) *call[[]byte] {
	c, mine := d.chunks.join(e.ID)
	if mine {
		d.work.Go(func() {
			raw, err := d.unpack(e)
			d.chunks.finish(e.ID, c, raw, int64(len(raw)), err)
		})
	}
	return c
}

func (d *Device) unpack(e chunk.Entry) ([]byte, error) {
	v, err := d.object(e.ID, int64(e.StoredSize))
	if err != nil {
		return nil, err
	}
	if e.Codec == chunk.Stored && len(v.Stored()) == e.RawSize {
		return v.Stored(), nil
	}
	raw := make([]byte, e.RawSize)
	if err := chunk.Decode(raw, v.Stored(), e.Codec); err != nil {
		return nil, fmt.Errorf("%w: object %s: %w", ErrBroken, e.ID, err)
	}
	return raw, nil
}

func (d *Device) object(id chunk.ID, size int64) (chunk.Verified, error) {
	v, err := d.src.Get(d.ctx, id, size)
	if err == nil && v.ID() != id {
		err = errors.New("the source returned another object")
	}
	if err != nil {
		return chunk.Verified{}, fmt.Errorf("object %s: %w", id, err)
	}
	return v, nil
}

// page returns page i of the index.
func (d *Device) page(ctx context.Context, i int) (*chunk.Page, error) {
	c, mine := d.pages.join(i)
	if mine {
		d.work.Go(func() {
			p, err := d.loadPage(i)
			d.pages.finish(i, c, p, pageCost(d.root.Pages[i]), err)
		})
	}
	return c.wait(ctx)
}

func (d *Device) loadPage(i int) (*chunk.Page, error) {
	ref := d.root.Pages[i]
	v, err := d.object(ref.ID, int64(ref.StoredSize))
	if err != nil {
		return nil, fmt.Errorf("index page %d: %w", i, err)
	}
	p, err := d.root.DecodePage(i, v.Stored())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return p, nil
}

// pageCost is about what a decoded page takes in memory, in bytes.
func pageCost(r chunk.PageRef) int64 { return int64(r.Entries) * 72 }
