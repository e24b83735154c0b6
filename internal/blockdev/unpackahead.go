package blockdev

import (
	"sync/atomic"
	"time"
)

const (
	// nextFew is how far beyond the piece that is read pieces are unpacked: boots that are alike read them in
	// nearly the same order.
	nextFew = 4
	// unpackPause is for how long no read came when pieces are unpacked beyond the next one: see
	// docs/adr/0053-rules-of-the-swarm.md.
	unpackPause = time.Millisecond
)

// unpackAhead is where a boot reads, and how long ago it did.
type unpackAhead struct {
	piece atomic.Int64 // that was read from last
	pause *time.Timer  // fires after earlyPause without a read
}

// startUnpackAhead has pieces unpacked in pauses, until the device is closed.
func (d *Device) startUnpackAhead() {
	if !d.opts.UnpackAhead {
		return
	}
	d.unpacking.pause = time.NewTimer(unpackPause)
	d.unpacking.pause.Stop() // until something is read
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

// unpackNext unpacks the pieces that a boot reads next, in the pack's order, if a processor is idle. It unpacks the
// next one at once, and the few after it while no read runs.
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

// upcoming returns the first of the few pieces after one that is kept, unread and not unpacked. It returns -1 if there
// is none, if one is being unpacked, or if there is no room. ready reports that another of them is unpacked.
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

// look reports whether k is there, or else whether it could be kept beside all that is.
func (g *group[K, V]) look(k K, cost int64) (has, fits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept.has(k), g.kept.cost+cost <= g.kept.limit
}
