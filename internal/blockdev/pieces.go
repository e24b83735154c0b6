package blockdev

import (
	"context"
	"sync"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/piecestore"
)

// Pack is a boot pack to read from. Zero values mean the defaults.
type Pack struct {
	Map  bootpack.Map // its signature was checked
	Keep int64        // bytes of pieces kept as they were sent, for this node and its peers; default 24 MiB
	Idle bool         // fetch what reads ask for and nothing else

	// Fetcher, if set, fetches the pieces in its own order and passes them to Device.Put. Without it the device fetches
	// them in the pack's order.
	Fetcher PieceFetcher
	// Kept, if set, returns a piece that the node keeps across boots. The device streams these even if there is a
	// PieceFetcher, to which it leaves the rest.
	Kept func(ctx context.Context, r chunk.Request) (chunk.Verified, bool)

	// Source fetches pieces, by requests that are Optional: the blocks of a piece that is not to be had come from
	// chunks.
	Source chunk.Source
	// Has, if set, reports whether the node keeps an object, so that it costs no transfer.
	Has func(id chunk.ID) bool
	// Lost, if set, is called with a piece, or the zero ID for the whole pack, that cannot be used.
	Lost func(piece chunk.ID, err error)
	// Unread, if set, is called when the number of received raw bytes that were not read yet changes; late: of pieces
	// for reads after booted.
	Unread func(change int64, late bool)
	// Patience, if set, is the least time that a read waits for a piece. It grows with the announce delay.
	Patience func() time.Duration
	// Complete, if set, is called once, when every piece that a boot reads until booted has arrived.
	Complete func()
	// Whole, if set, is called once, when every piece has arrived.
	Whole func()
}

// PieceFetcher fetches the pieces of a pack in its own order, as a swarm does. Its methods are called with a lock held:
// they must not block, and must not call the device.
type PieceFetcher interface {
	Dropped(piece int) // the device let go of a piece that it had
	Moved()            // reads went on, so Device.Reach may be another
	Ahead(piece int)   // the node does not keep a piece that the device would have streamed: it is to be brought
}

// noFetcher is the PieceFetcher of a pack that has none.
type noFetcher struct{}

func (noFetcher) Dropped(int) {}
func (noFetcher) Moved()      {}
func (noFetcher) Ahead(int)   {}

func (p *Pack) defaults() {
	if p.Fetcher == nil {
		p.Fetcher = noFetcher{}
	}
	if p.Keep == 0 {
		p.Keep = 24 << 20
	}
	if p.Patience == nil {
		p.Patience = func() time.Duration { return 0 }
	}
	if p.Lost == nil {
		p.Lost = func(chunk.ID, error) {}
	}
	if p.Unread == nil {
		p.Unread = func(int64, bool) {}
	}
	if p.Complete == nil {
		p.Complete = func() {}
	}
	if p.Whole == nil {
		p.Whole = func() {}
	}
}

// maxLost is how many pieces may be lost before the pack is given up. What is wrong with so many is wrong with
// all, and asking costs each read a detour.
const maxLost = 8

// pieces is a pack in use: where its blocks are, which pieces are kept, and which bytes were read.
//
// If there is no room for all pieces, the pack's order decides, because boots read in that order. A piece's place is
// the number of pieces read from before its last read, and its own number until it is read. Completely read pieces are
// dropped first. Programs that start side by side read in another order each time, so a piece with unread blocks is
// dropped only if its place is as far behind as there is room for pieces. Streaming ahead never displaces unread
// blocks.
type pieces struct {
	*layout
	Pack
	running group[int, chunk.Verified] // fetches; keeps nothing itself

	memory piecestore.Memory
	all    int64 // memory of all pieces

	mu    sync.Mutex
	state []piece
	cost  int64         // memory of those that are kept or on their way
	front int           // pieces that were read from
	late  int           // how far behind front the place of a piece is that nobody waits for any more
	lost  int           // pieces
	due   int           // pieces until booted that never came
	rest  int           // all pieces that never came
	read  []uint64      // a bit for each block of the pack that was read, or that no read asks for
	moved chan struct{} // closed and replaced when front moved
	over  bool          // the boot is
}

type piece struct {
	held   chunk.Verified // as it was sent
	kept   bool           // held is there, and its bytes are counted in cost
	coming bool           // it is streamed now, and its bytes are counted in cost
	fed    bool           // it is left to the piece fetcher, and not streamed
	came   bool           // it was received, now or before
	lost   bool
	spared bool // lost, but only because its blocks are there already
	read   bool
	left   int // blocks that nobody read yet
	place  int
}

func newPieces(p Pack, size int64) (*pieces, error) {
	l, err := newLayout(p.Map, size)
	if err != nil {
		return nil, err
	}
	blocks := l.ends[len(l.ends)-1] / chunk.BlockSize
	s := &pieces{layout: l, Pack: p, state: make([]piece, len(l.pieces)), moved: make(chan struct{}),
		read: make([]uint64, (blocks+63)/64), late: int(p.Keep * int64(len(l.pieces)) / p.Map.StoredSize()),
		due: min(p.Map.Booted, len(l.pieces)), rest: len(l.pieces), memory: piecestore.New(p.Map.Pieces, p.Keep)}
	for i := range s.state {
		s.state[i].place, s.state[i].left = i, l.pieces[i].RawSize/chunk.BlockSize
		s.all += s.size(i)
	}
	s.passUnused()
	return s, nil
}

// passUnused counts blocks that are not of the root as if they were read: their piece waits for no read of them.
// They stay among the bytes that came for nothing.
func (p *pieces) passUnused() {
	at := uint32(0)
	for i, e := range p.Map.Placed() {
		if e.Unused() {
			p.state[i].left -= int(e.Blocks)
			for b := at; b < at+e.Blocks; b++ {
				p.read[b/64] |= 1 << (b % 64)
			}
		}
		at += e.Blocks
	}
}

// usable reports whether reads may be answered from piece i.
func (p *pieces) usable(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.state[i].lost && (p.lost < maxLost || p.state[i].kept)
}

// get returns piece i as it was sent, if it is kept.
func (p *pieces) get(i int) (chunk.Verified, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[i].held, p.state[i].kept
}

// keep takes a piece that was received.
func (p *pieces) keep(i int, v chunk.Verified) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state[i]
	p.arrived(i)
	if !s.kept && (s.coming || p.reserve(i, true)) {
		s.held, s.kept, s.coming = p.memory.Put(i, v), true, false
	}
}

// put takes a piece that a piece fetcher brought, and tells whether it is kept: nothing that is still to be read makes
// room for it.
func (p *pieces) put(i int, v chunk.Verified) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state[i]
	p.arrived(i)
	if !s.kept && !s.lost && (s.coming || p.reserve(i, false)) {
		s.held, s.kept, s.coming = p.memory.Put(i, v), true, false
	}
	return s.kept
}

// arrived counts a piece at its first arrival. Callers hold mu.
func (p *pieces) arrived(i int) {
	if s := &p.state[i]; !s.came {
		s.came = true
		p.Unread(int64(p.pieces[i].RawSize), i >= p.Map.Booted)
		if i < p.Map.Booted {
			if p.due--; p.due == 0 {
				p.Complete()
			}
		}
		if p.rest--; p.rest == 0 {
			p.Whole()
		}
	}
}

// lose gives piece i up.
func (p *pieces) lose(i int, err error) {
	p.mu.Lock()
	s := &p.state[i]
	first := !s.lost
	if first {
		s.lost = true
		p.lost++
		p.drop(i)
	}
	p.mu.Unlock()
	if first {
		p.Lost(p.pieces[i].ID, err)
	}
}

// note marks n bytes at offset at of piece i as read. fresh: some of them were unread; last: no byte of the piece is
// unread now.
func (p *pieces) note(i int, at, n int64) (fresh, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state[i]
	if !s.read {
		s.read = true
		p.front++
		p.stir()
	}
	s.place = p.front
	count := int64(0)
	for b := (p.begin(i) + at) / chunk.BlockSize; b*chunk.BlockSize < p.begin(i)+at+n; b++ {
		if bit := uint64(1) << (b % 64); p.read[b/64]&bit == 0 {
			p.read[b/64] |= bit
			count++
		}
	}
	s.left -= int(count)
	if count > 0 {
		p.Unread(-count*chunk.BlockSize, i >= p.Map.Booted)
	}
	return count > 0, count > 0 && s.left == 0
}

// unread reports whether there is anything in a segment of piece i that nobody read.
func (p *pieces) unread(i, of int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := (p.begin(i) + int64(of)*segment) / chunk.BlockSize
	for b := first; b < min(first+segment/chunk.BlockSize, p.ends[i]/chunk.BlockSize); b++ {
		if p.read[b/64]&(1<<(b%64)) == 0 {
			return true
		}
	}
	return false
}

// stir wakes the streams that wait for room. Callers hold mu.
func (p *pieces) stir() {
	close(p.moved)
	p.moved = make(chan struct{})
	p.Fetcher.Moved()
}
