package blockdev

import "pando/internal/chunk"

// next returns the first piece below upto to stream, and reserves room for it. Without one it returns -1, and a channel
// that is closed when there may be room or time, or nil if nothing is left to stream.
func (p *pieces) next(upto int) (i int, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost >= maxLost {
		return -1, nil
	}
	for i := range p.state[:upto] {
		if !p.wanting(i) || p.state[i].fed {
			continue
		}
		if i >= p.Map.Booted && !p.later() || !p.reserve(i, false) {
			return -1, p.moved
		}
		p.state[i].coming = true
		return i, nil
	}
	return -1, nil
}

// leave leaves piece i, which was to be streamed, to the piece fetcher.
func (p *pieces) leave(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state[i]
	if s.coming {
		s.coming = false
		p.cost -= p.size(i)
	}
	if s.fed = true; !s.kept && !s.lost {
		p.Fetcher.Ahead(i)
	}
}

// wanting reports whether piece i has to come yet: it never did, or it had to make room and is still to be read.
// Callers hold mu.
func (p *pieces) wanting(i int) bool {
	s := &p.state[i]
	return !s.kept && !s.coming && !s.lost && (!s.came || !s.read && !p.past(s))
}

// done reports whether nothing of a piece is left to read; past, whether the boot went on without reading all of it.
// Callers hold mu.
func (p *pieces) done(s *piece) bool { return s.left == 0 && s.place < p.front }
func (p *pieces) past(s *piece) bool { return s.place < p.front-p.late }

// reserve makes room for piece i by dropping completely read pieces, and then those that the boot is past. If all kept
// pieces are unread, a piece that a read waits for takes the room of the one that is read last. Callers hold mu.
func (p *pieces) reserve(i int, readWaits bool) bool {
	size := p.size(i)
	for p.cost+size > p.Keep {
		done, lowest, highest := p.extremes()
		switch {
		case done >= 0:
			p.drop(done)
		case lowest >= 0 && p.past(&p.state[lowest]):
			p.drop(lowest)
		case readWaits && highest >= 0 && p.state[highest].place > p.state[i].place:
			p.drop(highest)
		default:
			return false
		}
	}
	p.cost += size
	return true
}

// What the heap gives for more than 32 KiB is whole pages of 8 KiB, as of Go 1.26.
const (
	heapPage  = 8 << 10
	heapLarge = 32 << 10
)

// size is how much memory piece i takes: in its mapping its bytes, in the heap some more.
func (p *pieces) size(i int) int64 {
	size := int64(p.pieces[i].StoredSize)
	if !p.memory.Mapped() && size > heapLarge {
		size = (size + heapPage - 1) / heapPage * heapPage
	}
	return size
}

// few bounds how many pieces until booted may be missing when pieces for later reads are fetched ahead, in a pack that
// was recorded until a mark. Before that they would take the links from machines that still boot. It is about as many
// as a node has under way, and at most an eighth of those until booted.
const few = 24

// later reports whether pieces for later may be fetched ahead. Callers hold mu.
func (p *pieces) later() bool {
	waited := len(p.state) > 2*p.Map.Booted && p.due <= min(few, p.Map.Booted/8)
	return p.over || waited
}

// reach is how many pieces, from the first on, shall come now: there is room for them, what is kept and is done or
// past makes room, and it is time.
func (p *pieces) reach() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, upto := p.Keep, len(p.state)
	if p.Map.Booted < upto && !p.later() {
		upto = p.Map.Booted
	}
	// as nearly always: it is asked with each piece and each read, and a desktop's pack has hundreds
	if p.all <= p.Keep {
		return upto
	}
	for i := range upto {
		s := &p.state[i]
		if s.lost || s.kept && (p.done(s) || p.past(s)) || !s.kept && !p.wanting(i) {
			continue
		}
		if left -= p.size(i); left < 0 {
			return i
		}
	}
	return upto
}

// extremes are the kept pieces with the lowest and the highest place, and that with the lowest of those that are
// done; -1 when there is none. Callers hold mu.
func (p *pieces) extremes() (done, lowest, highest int) {
	done, lowest, highest = -1, -1, -1
	for i := range p.state {
		place := p.state[i].place
		if p.state[i].kept && p.done(&p.state[i]) && (done < 0 || place < p.state[done].place) {
			done = i
		}
		switch {
		case !p.state[i].kept:
			continue
		case lowest < 0:
			lowest, highest = i, i
		case place < p.state[lowest].place:
			lowest = i
		case place >= p.state[highest].place:
			highest = i
		}
	}
	return done, lowest, highest
}

// drop lets go of the bytes of piece i. Callers hold mu.
func (p *pieces) drop(i int) {
	s := &p.state[i]
	if s.kept || s.coming {
		p.cost -= p.size(i)
	}
	if s.kept {
		p.Fetcher.Dropped(i)
	}
	s.held, s.kept, s.coming = chunk.Verified{}, false, false
}
