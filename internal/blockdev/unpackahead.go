package blockdev

import (
	"sync/atomic"
	"time"
)

const (
	// nextFew is how many pieces after the piece being read may be unpacked ahead. Similar boots read them in nearly
	// the same order.
	nextFew = 4
	// unpackPause is the time without a read after which pieces beyond the next one are unpacked: see
	// docs/adr/0053-rules-of-the-swarm.md.
	unpackPause = time.Millisecond
)

// unpackAhead notes where a boot reads, and when it last did.
type unpackAhead struct {
	piece atomic.Int64 // piece that was read from last
	pause *time.Timer  // fires after unpackPause without a read
}

// startUnpackAhead unpacks pieces in pauses of the reads, until the device is closed.
func (d *Device) startUnpackAhead() {
	if !d.opts.UnpackAhead {
		return
	}
	d.unpacking.pause = time.NewTimer(unpackPause)
	d.unpacking.pause.Stop() // the first read starts the timer
	d.work.Go(func() {
		defer d.unpacking.pause.Stop()
		for {
			select {
			case <-d.ctx.Done():
				return
			case <-d.unpacking.pause.C:
			}
			if i, _ := d.upcoming(int(d.unpacking.piece.Load())); i >= 0 {
				d.unpackPiece(i)
				d.unpacking.pause.Reset(unpackPause)
			}
		}
	})
}

// unpackNext unpacks the pieces that a boot reads next, in the pack's order, if a processor is idle: the next one at
// once, and a few after it in a pause of the reads.
func (d *Device) unpackNext(piece int) {
	if !d.opts.UnpackAhead {
		return
	}
	d.unpacking.piece.Store(int64(piece))
	d.unpacking.pause.Reset(unpackPause)
	if i, ready := d.upcoming(piece); i >= 0 && !ready {
		d.work.Go(func() { d.unpackPiece(i) })
	}
}

func (d *Device) unpackPiece(i int) {
	if c := d.piece(i); c != nil {
		d.raws.leave(c)
	}
}

// upcoming returns the first of the few pieces after piece that is held, unread and not unpacked. It returns -1 if
// there is none, if anything is being unpacked, or if there is no room. ready reports that another of them is unpacked.
func (d *Device) upcoming(piece int) (next int, ready bool) {
	if d.raws.busy() > 0 {
		return -1, false
	}
	next = -1
	for i := piece + 1; i < min(piece+1+nextFew, len(d.pack.pieces)); i++ {
		if !d.pack.Reads.Fresh(i) {
			continue
		}
		e := d.pack.pieces[i]
		switch has, fits := d.raws.look(rawKey{e.ID, true}, rawCost(e.RawSize)); {
		case has:
			ready = true
		case fits && next < 0:
			next = i
		}
	}
	return next, ready
}

// look reports whether the value of k is kept, and if not, whether it would fit without dropping another value.
func (g *group[K, V]) look(k K, cost int64) (has, fits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept.has(k), g.kept.cost+cost <= g.kept.limit
}
