package boot

import (
	"fmt"
	"strconv"
	"time"

	"pando/internal/blockdev"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/store"
)

// How many bytes of the boot pack are kept as they were sent, where the group does not say. All of it is best:
// programs that start side by side read it in another order each time, and peers want any of it. So a node gives it
// a sixteenth of its memory: a kiosk of 1 GB has 64 MB for it, a machine of 2 GB room for a desktop's pack, which
// has 96 MB. A server's has 9 to 24, which any machine can spare.
const (
	leastKeep = 24 << 20
	mostKeep  = 256 << 20
	keepPart  = 16
	sharePart = 4 // the part of its memory that no group can ask for more than: what is kept is locked in memory
)

// keepOf is how many bytes of a pack of size bytes a node with so much memory keeps. share is what its group says,
// 0: nothing. An unknown memory is 0.
func keepOf(size, memory, share int64) int64 {
	keep := min(max(memory/keepPart, leastKeep), mostKeep)
	if share > 0 {
		keep = share
		if memory > 0 {
			keep = min(share, max(memory/sharePart, leastKeep))
		}
	}
	return min(keep, size)
}

// pieceLate is how many times as long as word may be on its way a read waits for a piece, before it turns to
// chunks: no shorter than the swarm waits for it.
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

// pack is the boot pack to read from, nil without one. A daemon that takes over in mid-life fetches only what reads
// ask for: its boot is over, or has most of it.
func (d *blockDaemon) pack(m bootpack.Map, retry *store.Retry, slow *store.Slow) *blockdev.Pack {
	if len(m.Pieces) == 0 {
		return nil
	}
	keep := keepOf(m.StoredSize(), machineMemory(), d.cfg.Keep)
	d.log.Info("boot pack", "bytes", m.StoredSize(), "kept", keep)
	return &blockdev.Pack{
		Map:      m,
		Keep:     keep,
		Idle:     d.cfg.Idle || d.ledger.get(countRestarts) > 0,
		Source:   d.kept(retry),
		Has:      d.has(),
		Lost:     d.lostPiece,
		Unread:   d.unread,
		Complete: d.note(countComplete),
		Whole:    d.whole(),
		Patience: func() time.Duration { return pieceLate * slow.Least(0) },
	}
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
func (d *blockDaemon) unread(n int64, late bool) {
	if late {
		d.ledger.add(bytesLate, n)
	} else {
		d.ledger.add(bytesUnread, n)
	}
}

// booted lets come what boots read after they are over. A daemon that takes over fetches nothing ahead.
func (d *blockDaemon) booted() {
	if dev := d.device.Load(); dev != nil {
		dev.BootOver()
	}
}

// endReads ends the recording, and with it the account of how the boot pack did. Nobody may have said that the boot
// is over.
func (d *blockDaemon) endReads() Recording {
	defer d.booted()
	return d.reads.end(func(r *Recording) {
		r.Read = d.ledger.get(countReadBytes) - d.ledger.get(bytesZero)
		r.Peers = d.ledger.get(bytesPeer)
		r.Received = d.ledger.get(bytesServer) + r.Peers
		if len(d.cfg.Pack) == 0 {
			return
		}
		r.Pack = chunk.Sum(d.cfg.Pack).String()
		r.Hits = d.ledger.get(bytesPack) + d.ledger.get(bytesSpared)
		r.Wasted, r.Late = d.ledger.get(bytesUnread), d.ledger.get(bytesLate)
		r.Misses = max(0, r.Read-r.Hits)
	})
}

// message says how the boot pack did, for the timeline.
func (r Recording) message() string {
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	cut := ""
	if r.Cut {
		cut = fmt.Sprintf("; only the first %d reads are recorded", r.Count)
	}
	if r.Pack == "" {
		return fmt.Sprintf(
			"%d reads of %s recorded for the boot pack, %s received",
			r.Count,
			mb(r.Read),
			mb(r.Received),
		) + cut
	}
	text := fmt.Sprintf("boot pack: %s of %s read were in it, %s of it were not read, %s received",
		mb(r.Hits), mb(r.Read), mb(r.Wasted), mb(r.Received))
	if r.Late > 0 {
		text += ", " + mb(r.Late) + " of what it has for later were not read"
	}
	if r.Peers > 0 {
		text += ", " + mb(r.Peers) + " of it from peers"
	}
	return text + cut
}

// attrs are the numbers behind message, in bytes.
func (r Recording) attrs() map[string]string {
	out := map[string]string{}
	for name, n := range map[string]int64{"read": r.Read, "received": r.Received, "peers": r.Peers, "hits": r.Hits, "misses": r.Misses, "wasted": r.Wasted, "late": r.Late} {
		out[name] = strconv.FormatInt(n, 10)
	}
	if r.Pack != "" {
		out["pack"] = r.Pack
	}
	return out
}
