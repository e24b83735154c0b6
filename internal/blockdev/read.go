package blockdev

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pando/internal/chunk"
	"pando/internal/piecestore"
)

// ReadAt fills p with the raw bytes from off. It waits for a source until ctx is done. ErrBroken is permanent.
func (d *Device) ReadAt(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > d.Size() || int64(len(p)) > d.Size()-off {
		return fmt.Errorf("read %d bytes at %d: outside of %d bytes", len(p), off, d.Size())
	}
	if err := d.read(ctx, p, off); err != nil {
		return fmt.Errorf("read %d bytes at %d: %w", len(p), off, err)
	}
	d.readAhead(off, int64(len(p)))
	return nil
}

// part is a part of the range that a read wants.
type part struct {
	dst   []byte
	off   int64       // offset of dst in the root
	call  *call[*raw] // nil: zeros
	at    int64       // offset of dst in the call's value
	kept  bool        // the call's value was kept already
	piece int         // piece of the boot pack, -1 for a chunk
}

// read fills p from the boot pack where the pack has the blocks, and from chunks elsewhere. It starts all fetches
// before it waits for any: a request of 128 KiB spans two or three chunks.
func (d *Device) read(ctx context.Context, p []byte, off int64) error {
	spans := d.layout().split(off, int64(len(p)))
	calls := make([]*call[*raw], len(spans))
	for i, s := range spans {
		if s.piece >= 0 {
			calls[i] = d.piece(s.piece)
		}
	}
	parts := make([]part, 0, len(spans)+2)
	for i, s := range spans {
		dst := p[s.off-off:][:s.n]
		if calls[i] != nil {
			parts = append(parts, part{dst: dst, off: s.off, call: calls[i], at: s.at, piece: s.piece})
			continue
		}
		if s.piece >= 0 {
			_, _, lost := d.pack.Store.Piece(s.piece)
			d.servedSpared(lost, len(dst))
		}
		var err error
		if parts, err = d.fromChunks(ctx, parts, dst, s.off); err != nil {
			return err
		}
	}
	return d.fill(ctx, parts)
}

// fromChunks appends the parts that come from chunks and zeros.
func (d *Device) fromChunks(ctx context.Context, parts []part, p []byte, off int64) ([]part, error) {
	extents, err := d.extents(ctx, off, int64(len(p)))
	if err != nil {
		return nil, err
	}
	for _, e := range extents {
		from := max(0, e.start-off)
		x := part{
			dst:   p[from:min(int64(len(p)), e.start+int64(e.RawSize)-off)],
			off:   off + from,
			at:    off + from - e.start,
			piece: -1,
		}
		if e.Codec != chunk.Zero {
			x.call, x.kept = d.chunk(e.Entry)
		}
		parts = append(parts, x)
	}
	return parts, nil
}

// fill waits for the parts and copies them to their destinations.
func (d *Device) fill(ctx context.Context, parts []part) error {
	for _, x := range parts {
		if x.call == nil {
			clear(x.dst)
			d.opts.Served("zero", len(x.dst))
			continue
		}
		err := d.copy(ctx, x)
		for errors.Is(err, errShed) { // read again: the kernel did not keep it
			d.raws.forget(rawKey{d.pack.pieces[x.piece].ID, true})
			if x.call = d.piece(x.piece); x.call == nil {
				break
			}
			err = d.copy(ctx, x)
		}
		switch {
		case err == nil:
		case x.piece >= 0 && ctx.Err() == nil && d.ctx.Err() == nil:
			d.servedSpared(err, len(x.dst))
			if err := d.readChunks(ctx, x.dst, x.off); err != nil {
				return err
			}
			continue
		default:
			return err
		}
		switch {
		case x.piece >= 0:
			d.noteRead(x.piece, x.at, int64(len(x.dst)))
			d.unpackNext(x.piece)
			d.opts.Served("pack", len(x.dst))
		case x.kept:
			d.opts.Served("cache", len(x.dst))
		}
	}
	return nil
}

// servedSpared counts n bytes if why is ErrSpared: the piece was not fetched because its blocks cost less as chunks.
func (d *Device) servedSpared(why error, n int) {
	if errors.Is(why, piecestore.ErrSpared) {
		d.opts.Served("spared", n)
	}
}

// noteRead notes a read of a piece, and drops raw bytes that were read: the kernel keeps them. If the kernel reads
// bytes again, it did not keep them, and may read the rest again too; then nothing is dropped.
func (d *Device) noteRead(piece int, at, n int64) {
	fresh, last := d.pack.Reads.Read(piece, at, n)
	switch k := (rawKey{d.pack.pieces[piece].ID, true}); {
	case last:
		d.raws.forget(k)
	case fresh:
		d.raws.trim(k, func(r *raw) int64 {
			return d.shed(r, func(i int) bool { return d.pack.Reads.HasUnread(piece, int64(i)*segment, segment) })
		})
	}
}

// pieceMost is how long a read waits for a piece on usual links before it reads chunks instead. It must not be short:
// in a storm on slow links a piece takes ten seconds, and nodes that fetch chunks from the server slow it down for all.
const pieceMost = 30 * time.Second

var errSlow = errors.New("the piece takes too long")

// copy waits for the raw bytes of a part, copies them to it, and leaves the call.
func (d *Device) copy(ctx context.Context, x part) error {
	defer d.raws.leave(x.call)
	if x.piece >= 0 && !x.call.ended() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(pieceMost, d.pack.Patience()), errSlow)
		defer cancel()
	}
	r, err := x.call.wait(ctx)
	if err != nil {
		return err
	}
	if !r.has(x.at, int64(len(x.dst))) {
		return errShed
	}
	r.read(x.dst, x.at)
	return nil
}

// readChunks fills p without the boot pack.
func (d *Device) readChunks(ctx context.Context, p []byte, off int64) error {
	parts, err := d.fromChunks(ctx, nil, p, off)
	if err != nil {
		return err
	}
	return d.fill(ctx, parts)
}

// layout returns the positions of blocks in the boot pack, nil without a pack.
func (d *Device) layout() *layout {
	if d.pack == nil {
		return nil
	}
	return d.pack.layout
}
