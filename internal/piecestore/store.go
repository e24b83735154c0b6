package piecestore

import (
	"errors"
	"sync"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Options are the settings of a Store. The functions may be nil. All but Lost are called with a lock held: they must
// not block, and must not call the Store.
type Options struct {
	Map  bootpack.Map // with a verified signature
	Keep int64        // bytes of stored pieces to hold; default 24 MiB

	Lost func(piece chunk.ID, err error) // called when no source has a piece
	// number of lost pieces
	Unread   func(change int64, late bool)
	Complete func() // called once, when every piece that a boot reads until booted has arrived
	Whole    func() // called once, when every piece has arrived
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

// ErrSpared is the error of a piece that is not fetched, because its blocks cost less as chunks. It is no loss.
var ErrSpared = errors.New("the node has most of the piece's blocks already")

var errGivenUp = errors.New("too many pieces of the pack were lost")

// maxLost is how many pieces may be lost before the pack is given up. So many losses have a common cause, and trying
// the rest would only delay each read.
const maxLost = 8

// Store holds the pieces of a boot pack. It is safe for concurrent use. If not all pieces fit, it drops pieces in this
// order:
//
//  1. pieces that were read completely
//  2. pieces that the boot has passed: their place is as far behind front as there is room for pieces
//  3. for a piece that a read waits for: the piece with the highest place, if that is above its own
//
// The place of a piece is the number of pieces read from before its last read, and its own number until it is read.
// Programs that start side by side read in another order each time, so a piece with unread blocks is not dropped at
// once. Streaming ahead never drops unread blocks that the boot has not passed.
type Store struct {
	Options
	memory memory
	all    int64 // memory that all pieces take, in bytes

	mu    sync.Mutex
	state []piece
	cost  int64         // memory of the pieces that are held or under way, in bytes
	front int           // number of pieces that were read from
	late  int           // a piece whose place is this far behind front may be dropped
	lost  int           // pieces
	due   int           // number of pieces until booted that never arrived
	rest  int           // number of all pieces that never arrived
	read  []uint64      // a bit for each block of the pack that was read, or that is of no use to the root
	moved chan struct{} // closed and replaced when front moves
	over  bool          // the boot is over

	follow        func() // called when there are changes; nil: no follower
	changed, left []int  // changes that the follower has not taken yet
}

type piece struct {
	bytes  chunk.Verified // stored bytes
	begin  int64          // offset of its raw bytes in those of all pieces
	held   bool           // bytes is set, and counted in cost
	coming bool           // being streamed; its size is counted in cost
	left   bool           // left to the follower, and not streamed
	came   bool           // received at least once
	lost   error          // error of a piece that no source has, or nil
	read   bool
	unread int // number of blocks that were not read yet
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

// passUnused counts blocks that are not part of the root as read, so that their piece does not wait for reads of them.
// Option Unread still counts their bytes as unread.
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

// Piece returns piece i in stored form, if it is held. lost is the error of a piece that no source has, nil while the
// piece may arrive.
func (s *Store) Piece(i int) (v chunk.Verified, held bool, lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.state[i]
	if lost = p.lost; lost == nil && !p.held && s.lost >= maxLost {
		lost = errGivenUp
	}
	return p.bytes, p.held, lost
}

// Put takes piece i and reports whether it is held. It drops no piece that is still to be read, unless readWaits.
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

// arrived counts a piece at its first arrival. The caller holds mu.
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

// Lose gives piece i up; err is the cause.
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
