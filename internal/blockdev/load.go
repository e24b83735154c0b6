package blockdev

import (
	"context"
	"errors"
	"fmt"

	"pando/internal/chunk"
)

// chunk returns a call for the raw bytes of e, and whether they are kept. The caller must call leave.
func (d *Device) chunk(e chunk.Entry) (c *call[*raw], kept bool) {
	return d.raw(rawKey{e.ID, false}, false, func() (*raw, error) {
		v, err := get(d.ctx, d.src, chunk.Request{ID: e.ID, Size: int64(e.StoredSize)})
		if err != nil {
			return nil, err
		}
		return d.unpack(e, v)
	})
}

// raw returns the call that loads raw bytes, and starts one if none runs. With here, load needs no fetch and runs in
// the caller's goroutine.
func (d *Device) raw(k rawKey, here bool, load func() (*raw, error)) (c *call[*raw], kept bool) {
	c, was := d.raws.join(k)
	if was != nothing {
		return c, was == there
	}
	d.demand.begin()
	run := func() {
		defer d.demand.end()
		r, err := load()
		if err != nil {
			d.raws.finish(k, c, nil, 0, err)
			return
		}
		d.raws.finish(k, c, r, r.cost(), nil)
	}
	if here {
		run()
	} else {
		d.work.Go(run)
	}
	return c, false
}

// unpack returns the raw bytes of an object in their own buffers, which are reused after the bytes are dropped.
func (d *Device) unpack(e chunk.Entry, v chunk.Verified) (*raw, error) {
	d.raws.makeRoom(rawCost(e.RawSize))
	r := d.newRaw(e.RawSize)
	if err := d.decoder.DecodeParts(r.segments, v.Stored(), e.Codec); err != nil {
		return nil, fmt.Errorf("%w: object %s: %w", ErrBroken, e.ID, err)
	}
	return r, nil
}

// get fetches an object and checks that it has the requested id.
func get(ctx context.Context, src chunk.Source, r chunk.Request) (chunk.Verified, error) {
	v, err := src.Get(ctx, r)
	if err == nil && v.ID() != r.ID {
		err = errors.New("the source returned another object")
	}
	if err != nil {
		return chunk.Verified{}, fmt.Errorf("object %s: %w", r.ID, err)
	}
	return v, nil
}

// page returns page i of the index.
func (d *Device) page(ctx context.Context, i int) (*chunk.Page, error) {
	c, was := d.pages.join(i)
	if was == nothing {
		d.demand.begin()
		d.work.Go(func() {
			defer d.demand.end()
			p, err := d.loadPage(i)
			d.pages.finish(i, c, p, pageCost(d.root.Pages[i]), err)
		})
	}
	return c.wait(ctx)
}

func (d *Device) loadPage(i int) (*chunk.Page, error) {
	ref := d.root.Pages[i]
	v, err := get(d.ctx, d.src, chunk.Request{ID: ref.ID, Size: int64(ref.StoredSize)})
	if err != nil {
		return nil, fmt.Errorf("index page %d: %w", i, err)
	}
	p, err := d.root.DecodePage(&d.decoder, i, v.Stored())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return p, nil
}

// pageCost returns about the memory of a decoded page, in bytes.
func pageCost(r chunk.PageRef) int64 { return int64(r.Entries) * 72 }
