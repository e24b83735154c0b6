package piecestore

import "pando/internal/chunk"

// Next returns the first piece below upto to stream, and reserves room for it. If there is none it returns -1, and a
// channel that is closed when a piece may be streamed. The channel is nil if no piece is left to stream.
func (s *Store) Next(upto int) (i int, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost >= maxLost {
		return -1, nil
	}
	for i := range s.state[:upto] {
		if !s.wanting(i) || s.state[i].left {
			continue
		}
		if i >= s.Map.Booted && !s.later() || !s.reserve(i, false) {
			return -1, s.moved
		}
		s.state[i].coming = true
		return i, nil
	}
	return -1, nil
}

// Leave passes piece i, which was to be streamed, to the follower.
func (s *Store) Leave(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.state[i]
	if p.coming {
		p.coming = false
		s.cost -= s.size(i)
	}
	if p.left = true; !p.held && p.lost == nil {
		s.tell(&s.left, i)
	}
}

// wanting reports whether piece i must still arrive: it never did, or it was dropped and is still to be read. The
// caller holds mu.
func (s *Store) wanting(i int) bool {
	p := &s.state[i]
	return !p.held && !p.coming && p.lost == nil && (!p.came || !p.read && !s.past(p))
}

// done reports whether a piece was read completely. past reports whether the boot has passed a piece without reading
// all of it. The caller holds mu.
func (s *Store) done(p *piece) bool { return p.unread == 0 && p.place < s.front }
func (s *Store) past(p *piece) bool { return p.place < s.front-s.late }

// reserve makes room for piece i by dropping pieces in the order that Store documents. It returns false if there is no
// room. The caller holds mu.
func (s *Store) reserve(i int, readWaits bool) bool {
	size := s.size(i)
	for s.cost+size > s.Keep {
		done, lowest, highest := s.extremes()
		switch {
		case done >= 0:
			s.drop(done)
		case lowest >= 0 && s.past(&s.state[lowest]):
			s.drop(lowest)
		case readWaits && highest >= 0 && s.state[highest].place > s.state[i].place:
			s.drop(highest)
		default:
			return false
		}
	}
	s.cost += size
	return true
}

// The heap rounds sizes above 32 KiB up to whole pages of 8 KiB, as of Go 1.26.
const (
	heapPage  = 8 << 10
	heapLarge = 32 << 10
)

// size returns the memory that piece i takes, in bytes.
func (s *Store) size(i int) int64 {
	size := int64(s.Map.Pieces[i].StoredSize)
	if s.memory.bytes == nil && size > heapLarge {
		size = (size + heapPage - 1) / heapPage * heapPage
	}
	return size
}

// few: pieces for later reads are fetched ahead once at most so many pieces until booted are missing, and at most an
// eighth of them. Earlier they would take the links from machines that still boot. It is about as many as a node has
// under way.
const few = 24

// later reports whether pieces for later reads may be fetched ahead: the boot is over, or most of the pack is for later
// reads and few pieces until booted are missing. The caller holds mu.
func (s *Store) later() bool {
	waited := len(s.state) > 2*s.Map.Booted && s.due <= min(few, s.Map.Booted/8)
	return s.over || waited
}

// reach returns how many pieces, from the first on, may be fetched now: those that there is room for, if done and past
// pieces are dropped. The caller holds mu.
func (s *Store) reach() int {
	room, upto := s.Keep, len(s.state)
	if s.Map.Booted < upto && !s.later() {
		upto = s.Map.Booted
	}
	// The usual case. reach is called for each piece and each read, and a desktop's pack has hundreds of pieces.
	if s.all <= s.Keep {
		return upto
	}
	for i := range upto {
		p := &s.state[i]
		if p.lost != nil || p.held && (s.done(p) || s.past(p)) || !p.held && !s.wanting(i) {
			continue
		}
		if room -= s.size(i); room < 0 {
			return i
		}
	}
	return upto
}

// extremes returns three held pieces: the one with the lowest place among the done ones, the lowest and the highest of
// all. -1: there is none. The caller holds mu.
func (s *Store) extremes() (done, lowest, highest int) {
	done, lowest, highest = -1, -1, -1
	for i := range s.state {
		p := &s.state[i]
		if !p.held {
			continue
		}
		if s.done(p) && (done < 0 || p.place < s.state[done].place) {
			done = i
		}
		if lowest < 0 || p.place < s.state[lowest].place {
			lowest = i
		}
		if highest < 0 || p.place >= s.state[highest].place {
			highest = i
		}
	}
	return done, lowest, highest
}

// drop drops the bytes of piece i. The caller holds mu.
func (s *Store) drop(i int) {
	p := &s.state[i]
	if p.held || p.coming {
		s.cost -= s.size(i)
	}
	if p.held {
		s.tell(&s.changed, i)
	}
	p.bytes, p.held, p.coming = chunk.Verified{}, false, false
}
