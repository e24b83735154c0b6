package blockdev

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pando/internal/chunk"
	"pando/internal/piecestore"
)

// streams is how many pieces are fetched at a time that no read waits for: enough to fill a link whose answers take
// a few milliseconds, few enough that a read's own fetch gets its share of it.
const streams = 3

// yieldMost is how long a stream yields to reads, so that reads that never pause, or one that never ends, do not stop
// it.
const yieldMost = 200 * time.Millisecond

// startStreams streams the pack: what a boot needs several at a time, what may come later one at a time.
func (d *Device) startStreams() {
	if d.pack.Stream == nil {
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
// before: it has to be there first, or all would be left to the swarm.
func (d *Device) stream(upto int) {
	if d.pack.Kept != nil {
		select {
		case <-d.rooted:
		case <-d.ctx.Done():
		}
	}
	for d.ctx.Err() == nil {
		i, wait := d.pack.Stream.Next(upto)
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

// bring streams piece i. Beside a swarm it brings only what the node keeps: a swarm has many transfers under way, in an
// order that suits it.
func (d *Device) bring(i int) {
	e := d.pack.pieces[i]
	if d.pack.Kept == nil {
		_, _ = d.sent(i) // an error was reported where it was met
		return
	}
	if d.cheaperAsChunks(i) {
		d.pack.Store.Lose(i, piecestore.ErrSpared)
		return
	}
	c, was := d.fetching.join(i)
	if was != nothing {
		return // a read fetches it
	}
	v, came, _ := d.pack.Store.Piece(i) // between the look and the call
	if !came {
		var ok bool
		if v, ok = d.pack.Kept(d.ctx, chunk.Request{ID: e.ID, Size: int64(e.StoredSize)}); !ok {
			d.fetching.finish(i, c, v, 1, errLeft)
			d.pack.Stream.Leave(i)
			return
		}
		d.pack.Store.Put(i, v, false)
	}
	d.fetching.finish(i, c, v, 1, nil)
}

// errLeft says that a piece is not kept, and left to the swarm.
var errLeft = errors.New("the node does not keep the piece")

// sent returns piece i as it was sent: held, on its way, or fetched now.
func (d *Device) sent(i int) (chunk.Verified, error) {
	for {
		if v, held, _ := d.pack.Store.Piece(i); held {
			return v, nil
		}
		c, was := d.fetching.join(i)
		if was == nothing {
			v, err := d.fetchPiece(i)
			d.fetching.finish(i, c, v, 1, err)
		}
		if v, err := c.wait(d.ctx); !errors.Is(err, errLeft) { // who waited for a stream fetches it now
			return v, err
		}
	}
}

func (d *Device) fetchPiece(i int) (chunk.Verified, error) {
	if v, held, _ := d.pack.Store.Piece(i); held {
		return v, nil // it came between the look and the call
	}
	if d.cheaperAsChunks(i) {
		d.pack.Store.Lose(i, piecestore.ErrSpared)
		return chunk.Verified{}, piecestore.ErrSpared
	}
	e := d.pack.pieces[i]
	v, err := get(d.ctx, d.pack.Source, chunk.Request{ID: e.ID, Size: int64(e.StoredSize), Optional: true})
	switch {
	case err == nil:
		d.pack.Store.Put(i, v, true)
	case d.ctx.Err() == nil:
		d.pack.Store.Lose(i, err)
	}
	return v, err
}

// piece returns a call for the raw bytes of piece i, of which the caller says leave; nil when its blocks have to
// come from chunks.
func (d *Device) piece(i int) *call[*raw] {
	held, here, lost := d.pack.Store.Piece(i)
	if lost != nil {
		return nil
	}
	e := d.pack.pieces[i]
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
			d.pack.Store.Lose(i, err)
			return nil, fmt.Errorf("piece %d: %w", i, err)
		}
		return r, nil
	})
	return c
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
