package blockd

import (
	"time"

	"pando/internal/blockapi"
	"pando/internal/blockdev"
	"pando/internal/chunk"
	"pando/internal/hardware"
	"pando/internal/image/bootpack"
	"pando/internal/piecestore"
	"pando/internal/store"
)

// pieceLate is how many announce delays a read waits for a piece before it fetches chunks instead. The swarm waits as
// long.
const pieceLate = 8

// packMap returns the boot pack's map, an empty one without a pack. Init has verified it.
func (d *blockDaemon) packMap() bootpack.Map {
	if len(d.cfg.Pack) == 0 {
		return bootpack.Map{}
	}
	m, err := bootpack.Decode(d.cfg.Pack)
	if err != nil {
		d.lostPiece(chunk.ID{}, err)
	}
	return m
}

// pack returns the boot pack to read from, or nil. A daemon that replaces another fetches only what is read, because
// the boot is over or nearly over.
func (d *blockDaemon) pack(m bootpack.Map, retry *store.Retry, slow *store.TimeoutFloor) *blockdev.Pack {
	if len(m.Pieces) == 0 {
		return nil
	}
	keep := blockapi.KeepOf(m.StoredSize(), hardware.Memory(), d.cfg.Keep)
	p, err := blockdev.NewPack(m, d.cfg.Size)
	if err != nil {
		d.lostPiece(chunk.ID{}, err)
		return nil
	}
	d.log.Info("boot pack is used", "bytes", m.StoredSize(), "kept", keep)
	s := piecestore.New(piecestore.Options{
		Map:      m,
		Keep:     keep,
		Lost:     d.lostPiece,
		Unread:   d.unread,
		Complete: d.note(countComplete),
		Whole:    d.whole(),
	})
	d.pieces.Store(s)
	p.Store, p.Reads, p.Source, p.Has = s, s, d.kept(retry), d.has()
	p.Patience = func() time.Duration { return pieceLate * slow.AtLeast(0) }
	if !d.cfg.Idle && d.ledger.get(countRestarts) == 0 {
		p.Stream = s
	}
	return p
}

func (d *blockDaemon) lostPiece(id chunk.ID, err error) {
	d.log.Warn("boot pack piece was lost", "piece", id.Name(), "err", err)
	d.watch.lostPiece(err)
}

// note returns a function that records in counter c the time since the daemon started. A daemon that replaces another
// records nothing, because its time is not that of a boot.
func (d *blockDaemon) note(c counter) func() {
	return func() {
		if d.ledger.get(countRestarts) == 0 {
			d.ledger.add(c, int64(time.Since(d.start)))
		}
	}
}

// whole returns the function that is called when the whole pack is there. It is called with a lock held, so it does
// not wait.
func (d *blockDaemon) whole() func() {
	note := d.note(countWhole)
	return func() {
		note()
		go d.fillCache()
	}
}

// unread counts bytes of pieces that were received and not read. pending: they belong to the pack's part for later
// reads.
func (d *blockDaemon) unread(n int64, pending bool) {
	if pending {
		d.ledger.add(bytesLate, n)
	} else {
		d.ledger.add(bytesUnread, n)
	}
}

// booted starts to fetch the pieces for reads after the boot. A daemon that replaces another fetches nothing ahead.
func (d *blockDaemon) booted() {
	if s := d.pieces.Load(); s != nil {
		s.BootOver()
	}
}

// endReads ends the recording and the statistics of the boot pack. It also calls booted, because nobody may have
// reported the end of the boot.
func (d *blockDaemon) endReads() blockapi.Recording {
	defer d.booted()
	return d.reads.end(func(r *blockapi.Recording) {
		r.Read = d.ledger.get(countReadBytes) - d.ledger.get(bytesZero)
		r.Peers = d.ledger.get(bytesPeer)
		r.Received = d.ledger.get(bytesServer) + r.Peers
		if len(d.cfg.Pack) == 0 {
			return
		}
		r.Pack = chunk.Sum(d.cfg.Pack).String()
		r.Hits = d.ledger.get(bytesPack) + d.ledger.get(bytesSpared)
		r.Wasted, r.WastedLater = d.ledger.get(bytesUnread), d.ledger.get(bytesLate)
		r.Misses = max(0, r.Read-r.Hits)
	})
}
