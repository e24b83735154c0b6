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

// streams is how many pieces are fetched ahead at a time: enough to fill a link whose replies take a few milliseconds,
// few enough that a read's own fetch gets its share of the link.
const streams = 3

// yieldMost is the longest time that a stream yields to reads, so that continuous reads, or one that never ends, do not
// stop it.
const yieldMost = 200 * time.Millisecond

// startStreams streams the pack: pieces that a boot needs several at a time, pieces for later one at a time.
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

// stream fetches pieces below upto, in order, until all have arrived or the device is closed. With Pack.Kept it waits
// for the index root first: the index tells which pieces' blocks the node has as chunks.
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
			if d.pack.Kept == nil { // kept pieces use no link that a read waits for
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

// bring streams piece i. Beside a swarm (Pack.Kept is set) it brings only kept pieces, and leaves the rest to the
// swarm, which has many transfers under way in its own order.
func (d *Device) bring(i int) {
	e := d.pack.pieces[i]
	if d.pack.Kept == nil {
		_, _ = d.sent(i) // errors are reported where they occur
		return
	}
	if d.cheaperAsChunks(i) {
		d.pack.Store.Lose(i, piecestore.ErrSpared)
		return
	}
	c, was := d.fetching.join(i)
	if was != nothing {
		return // a read is fetching it
	}
	v, came, _ := d.pack.Store.Piece(i) // it may have arrived since Next
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

// errLeft means that a piece is not kept, and is left to the swarm.
var errLeft = errors.New("the node does not keep the piece")

// sent returns piece i in stored form: held, under way, or fetched now.
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
		if v, err := c.wait(d.ctx); !errors.Is(err, errLeft) { // the waiting read fetches the piece itself
			return v, err
		}
	}
}

func (d *Device) fetchPiece(i int) (chunk.Verified, error) {
	if v, held, _ := d.pack.Store.Piece(i); held {
		return v, nil // it has arrived since the first check
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

// piece returns a call for the raw bytes of piece i; the caller must call leave. nil: its blocks must come from chunks.
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

// idle returns nil when no read waits for a fetch, else a channel that is closed when none does.
func (d *demand) idle() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return nil
	}
	return d.none
}

// yield returns when no read waits for a fetch, or after yieldMost.
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
