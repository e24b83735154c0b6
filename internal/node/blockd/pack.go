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

// pieceLate is how many network delays a read waits for a piece before it fetches chunks. The swarm waits as long.
const pieceLate = 8

// packMap is the map of the boot pack, of no pieces without one: init has verified it.
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

// pack is the boot pack to read from, or nil. A daemon that replaces another one fetches only what is read, because the
// boot is over or nearly so.
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
	d.log.Info("boot pack", "bytes", m.StoredSize(), "kept", keep)
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
	d.log.Warn("boot pack", "piece", id.Name(), "err", err)
	d.watch.lostPiece(err)
}

// note returns what notes when the boot set, or the whole pack, was there. What a daemon that takes over receives
// is no boot.
func (d *blockDaemon) note(c counter) func() {
	return func() {
		if d.ledger.get(countRestarts) == 0 {
			d.ledger.add(c, int64(time.Since(d.start)))
		}
	}
}

// whole is told with a lock held that the whole pack is there.
func (d *blockDaemon) whole() func() {
	note := d.note(countWhole)
	return func() {
		note()
		go d.fillCache()
	}
}

// unread counts what came in pieces and was not read.
func (d *blockDaemon) unread(n int64, pending bool) {
	if pending {
		d.ledger.add(bytesLate, n)
	} else {
		d.ledger.add(bytesUnread, n)
	}
}

// booted lets come what boots read after they are over. A daemon that takes over fetches nothing ahead.
func (d *blockDaemon) booted() {
	if s := d.pieces.Load(); s != nil {
		s.BootOver()
	}
}

// endReads ends the recording, and with it the account of how the boot pack did. Nobody may have said that the boot
// is over.
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
