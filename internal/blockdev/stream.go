package blockdev

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pando/internal/chunk"
)

// streams is how many pieces are fetched at a time that no read waits for: enough to fill a link whose answers take
// a few milliseconds, few enough that a read's own fetch gets its share of it.
const streams = 3

// yieldMost is how long a stream yields to reads, so that reads that never pause, or one that never ends, do not stop
// it.
const yieldMost = 200 * time.Millisecond

// startStreams streams the pack: what a boot needs several at a time, what may come later one at a time.
func (d *Device) startStreams() {
	_, alone := d.pack.Fetcher.(noFetcher)
	if !alone && d.pack.Kept == nil || d.pack.Idle {
		return
	}
	for n := range streams {
		upto := d.pack.Map.Booted
		if n == 0 {
			upto = len(d.pack.pieces)
		}
		d.work.Go(func() { d.stream(upto) })
	}
}

// stream fetches pieces below upto, in order, until all came or the device is closed. Of a node that keeps
// something the index says which pieces' blocks are there, in chunks of a boot before this pack or of the version
// before: it has to be there first, or all would be left to the piece fetcher.
func (d *Device) stream(upto int) {
	if d.pack.Kept != nil {
		select {
		case <-d.rooted:
		case <-d.ctx.Done():
		}
	}
	for d.ctx.Err() == nil {
		i, wait := d.pack.next(upto)
		switch {
		case i >= 0:
			if d.pack.Kept == nil { // what is kept comes over no link that a read waits for
				d.demand.yield(d.ctx)
			}
			d.bring(i)
		case wait == nil:
			return
		default:
			select {
			case <-wait:
			case <-d.ctx.Done():
			}
		}
	}
}

// bring streams piece i. If there is a piece fetcher it brings only what the node keeps: the fetcher has many transfers
// under way, in an order that suits a swarm.
func (d *Device) bring(i int) {
	e := d.pack.pieces[i]
	if d.pack.Kept == nil {
		_, _ = d.sent(i) // an error was reported where it was met
		return
	}
	if d.cheaperAsChunks(i) {
		d.pack.spare(i)
		return
	}
	c, was := d.pack.running.join(i)
	if was != nothing {
		return // a read fetches it
	}
	v, came := d.pack.get(i) // between the look and the call
	if !came {
		var ok bool
		if v, ok = d.pack.Kept(d.ctx, chunk.Request{ID: e.ID, Size: int64(e.StoredSize)}); !ok {
			d.pack.running.finish(i, c, v, 1, errLeft)
			d.pack.leave(i)
			return
		}
		d.pack.keep(i, v)
		d.pack.Fetcher.Moved()
	}
	d.pack.running.finish(i, c, v, 1, nil)
}

// errLeft says that a piece is not kept, and left to the piece fetcher.
var errLeft = errors.New("the node does not keep the piece")

// sent returns piece i as it was sent: kept, on its way, or fetched now.
func (d *Device) sent(i int) (chunk.Verified, error) {
	for {
		if v, ok := d.pack.get(i); ok {
			return v, nil
		}
		c, was := d.pack.running.join(i)
		if was == nothing {
			v, err := d.fetchPiece(i)
			d.pack.running.finish(i, c, v, 1, err)
		}
		if v, err := c.wait(d.ctx); !errors.Is(err, errLeft) { // who waited for a stream fetches it now
			return v, err
		}
	}
}

func (d *Device) fetchPiece(i int) (chunk.Verified, error) {
	if v, ok := d.pack.get(i); ok {
		return v, nil // it came between the look and the call
	}
	if d.cheaperAsChunks(i) {
		d.pack.spare(i)
		return chunk.Verified{}, errHaveChunks
	}
	e := d.pack.pieces[i]
	v, err := get(d.ctx, d.pack.Source, chunk.Request{ID: e.ID, Size: int64(e.StoredSize), Optional: true})
	switch {
	case err == nil:
		d.pack.keep(i, v)
		d.pack.Fetcher.Moved()
	case d.ctx.Err() == nil:
		d.pack.lose(i, err)
	}
	return v, err
}

// piece returns a call for the raw bytes of piece i, of which the caller says leave; nil when its blocks have to
// come from chunks.
func (d *Device) piece(i int) *call[*raw] {
	if !d.pack.usable(i) {
		return nil
	}
	e := d.pack.pieces[i]
	held, here := d.pack.get(i)
	c, _ := d.raw(rawKey{e.ID, true}, here, func() (*raw, error) {
		v := held
		if !here {
			var err error
			if v, err = d.sent(i); err != nil {
				return nil, err
			}
		}
		r, err := d.unpack(e, v)
		if err != nil {
			d.pack.lose(i, err)
			return nil, fmt.Errorf("piece %d: %w", i, err)
		}
		return r, nil
	})
	return c
}

// Piece returns piece i of the boot pack as it was sent, if it is kept, for a peer.
func (d *Device) Piece(i int) (chunk.Verified, bool) {
	if d.pack == nil || i < 0 || i >= len(d.pack.pieces) {
		return chunk.Verified{}, false
	}
	return d.pack.get(i)
}

// Pieces returns how many pieces the boot pack has; 0 without one.
func (d *Device) Pieces() int {
	if d.pack == nil {
		return 0
	}
	return len(d.pack.pieces)
}

// Put takes piece i of the boot pack and reports whether it is kept. The caller has checked that v is that piece.
func (d *Device) Put(i int, v chunk.Verified) (kept bool) {
	if d.pack == nil || i < 0 || i >= len(d.pack.pieces) || v.ID() != d.pack.pieces[i].ID {
		return false
	}
	return d.pack.put(i, v)
}

// Reach returns how many pieces of the boot pack, from the first one, there is room for. It grows as pieces are read.
func (d *Device) Reach() int {
	if d.pack == nil {
		return 0
	}
	return d.pack.reach()
}

// BootOver tells the device that the boot is over, so that it may fetch the pieces for later reads.
func (d *Device) BootOver() {
	if d.pack == nil {
		return
	}
	d.pack.mu.Lock()
	defer d.pack.mu.Unlock()
	d.pack.over = true
	d.pack.stir()
}

// demand counts the fetches that reads wait for.
type demand struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

func (d *demand) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n++; d.n == 1 {
		d.none = make(chan struct{})
	}
}

func (d *demand) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n--; d.n == 0 {
		close(d.none)
	}
}

// idle returns nil when no read waits, else a channel that is closed when that is so.
func (d *demand) idle() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return nil
	}
	return d.none
}

// yield returns when no read waits for a fetch, and after yieldMost.
func (d *demand) yield(ctx context.Context) {
	enough := time.NewTimer(yieldMost)
	defer enough.Stop()
	for c := d.idle(); c != nil; c = d.idle() {
		select {
		case <-c:
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
