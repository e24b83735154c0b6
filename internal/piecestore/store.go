package piecestore

import (
	"errors"
	"sync"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Options say what a Store is for. Its functions may be nil. But for Lost they are called with a lock held: they must
// not block, and must not call the Store.
type Options struct {
	Map  bootpack.Map // its signature was checked
	Keep int64        // bytes of pieces held as they were sent; default 24 MiB

	Lost func(piece chunk.ID, err error) // a piece is not to be had
	// Unread is called when the number of received raw bytes that were not read yet changes; late: of pieces for reads
	// after booted.
	Unread   func(change int64, late bool)
	Complete func() // once, when every piece that a boot reads until booted has arrived
	Whole    func() // once, when every piece has arrived
}

func (o *Options) defaults() {
	if o.Keep == 0 {
		o.Keep = 24 << 20
	}
	if o.Lost == nil {
		o.Lost = func(chunk.ID, error) {}
	}
	if o.Unread == nil {
		o.Unread = func(int64, bool) {}
	}
	if o.Complete == nil {
		o.Complete = func() {}
	}
	if o.Whole == nil {
		o.Whole = func() {}
	}
}

// ErrSpared is why a piece is not to be had whose blocks cost less as chunks. It is no loss.
var ErrSpared = errors.New("the node has most of the piece's blocks already")

var errGivenUp = errors.New("too many pieces of the pack were lost")

// maxLost is how many pieces may be lost before the pack is given up. What is wrong with so many is wrong with
// all, and asking costs each read a detour.
const maxLost = 8

// Store has the pieces of a boot pack. It is safe for concurrent use.
//
// If there is no room for all pieces, the pack's order decides, because boots read in that order. A piece's place is
// the number of pieces read from before its last read, and its own number until it is read. Completely read pieces are
// dropped first. Programs that start side by side read in another order each time, so a piece with unread blocks is
// dropped only if its place is as far behind as there is room for pieces. Streaming ahead never displaces unread
// blocks.
type Store struct {
	Options
	memory memory
	all    int64 // memory of all pieces

	mu    sync.Mutex
	state []piece
	cost  int64         // memory of those that are held or on their way
	front int           // pieces that were read from
	late  int           // how far behind front the place of a piece is that nobody waits for any more
	lost  int           // pieces
	due   int           // pieces until booted that never came
	rest  int           // all pieces that never came
	read  []uint64      // a bit for each block of the pack that was read, or that no read asks for
	moved chan struct{} // closed and replaced when front moved
	over  bool          // the boot is

	follow        func() // nil: nobody follows
	changed, left []int  // what the follower has not taken yet
}

type piece struct {
	bytes  chunk.Verified // as it was sent
	begin  int64          // of its raw bytes, among those of all pieces
	held   bool           // bytes is there, and counted in cost
	coming bool           // it is streamed now, and its bytes are counted in cost
	left   bool           // it is left to the follower, and not streamed
	came   bool           // it was received, now or before
	lost   error          // why it is not to be had; nil: it is
	read   bool
	unread int // blocks that nobody read yet
	place  int
}

// New returns a Store that holds nothing.
func New(o Options) *Store {
	o.defaults()
	n := len(o.Map.Pieces)
	s := &Store{Options: o, memory: newMemory(o.Map.Pieces, o.Keep), state: make([]piece, n),
		due: min(o.Map.Booted, n), rest: n, moved: make(chan struct{})}
	begin := int64(0)
	for i, e := range o.Map.Pieces {
		s.state[i] = piece{begin: begin, unread: e.RawSize / chunk.BlockSize, place: i}
		begin += int64(e.RawSize)
		s.all += s.size(i)
	}
	s.read = make([]uint64, (begin/chunk.BlockSize+63)/64)
	s.late = int(o.Keep * int64(n) / o.Map.StoredSize())
	s.passUnused()
	return s
}

// passUnused counts blocks that are not of the root as if they were read: their piece waits for no read of them.
// They stay among the bytes that came for nothing.
func (s *Store) passUnused() {
	at := uint32(0)
	for i, e := range s.Map.Placed() {
		if e.Unused() {
			s.state[i].unread -= int(e.Blocks)
			for b := at; b < at+e.Blocks; b++ {
				s.read[b/64] |= 1 << (b % 64)
			}
		}
		at += e.Blocks
	}
}

// Piece returns piece i as it was sent, if it is held. lost is why it is not to be had, nil while it may come.
func (s *Store) Piece(i int) (v chunk.Verified, held bool, lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.state[i]
	if lost = p.lost; lost == nil && !p.held && s.lost >= maxLost {
		lost = errGivenUp
	}
	return p.bytes, p.held, lost
}

// Put takes piece i and reports whether it is held. Nothing that is still to be read makes room for it, unless a read
// waits for it.
func (s *Store) Put(i int, v chunk.Verified, readWaits bool) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < 0 || i >= len(s.state) || v.ID() != s.Map.Pieces[i].ID {
		return false
	}
	p := &s.state[i]
	s.arrived(i)
	if !p.held && p.lost == nil && (p.coming || s.reserve(i, readWaits)) {
		p.bytes, p.held, p.coming = s.memory.put(i, v), true, false
		s.tell(&s.changed, i)
	}
	return p.held
}

// arrived counts a piece at its first arrival. Callers hold mu.
func (s *Store) arrived(i int) {
	p := &s.state[i]
	if p.came {
		return
	}
	p.came = true
	s.Unread(int64(s.Map.Pieces[i].RawSize), i >= s.Map.Booted)
	if i < s.Map.Booted {
		if s.due--; s.due == 0 {
			s.Complete()
		}
	}
	if s.rest--; s.rest == 0 {
		s.Whole()
	}
}

// Lose gives piece i up: err is why.
func (s *Store) Lose(i int, err error) {
	s.mu.Lock()
	first, spared := s.state[i].lost == nil, errors.Is(err, ErrSpared)
	if first {
		s.state[i].lost = err
		if !spared {
			s.lost++
		}
		s.drop(i)
		s.stir()
	}
	s.mu.Unlock()
	if first && !spared {
		s.Lost(s.Map.Pieces[i].ID, err)
	}
}
