package blockdev

import "pando/internal/chunk"

// next returns the first piece below upto that is to be streamed, and holds room for it. Without one it returns
// -1, and a channel that is closed when there may be room, or nil when nothing is left to stream.
func (p *pieces) next(upto int) (i int, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost >= maxLost {
		return -1, nil
	}
	for i := range p.state[:upto] {
		if !p.wanting(i) {
			continue
		}
		if !p.room(i, false) {
			return -1, p.moved
		}
		p.state[i].coming = true
		return i, nil
	}
	return -1, nil
}

// wanting tells whether piece i has to come yet: it never did, or it had to make room and is still to be read.
// Callers hold mu.
func (p *pieces) wanting(i int) bool {
	s := &p.state[i]
	return !s.kept && !s.coming && !s.lost && (!s.came || !s.read && s.place >= p.front)
}

// room holds room for piece i, and lets go of others for it. A piece that a read waits for takes, when all that is
// kept is still to be read, the room of the one that is read last. Callers hold mu.
func (p *pieces) room(i int, readWaits bool) bool {
	size := int64(p.pieces[i].StoredSize)
	for p.cost+size > p.Keep {
		lowest, highest := p.extremes()
		switch {
		case lowest >= 0 && p.state[lowest].place < p.front:
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

// reach is how many pieces, from the first on, there is room for: what is kept and was read, or passed by, makes room.
func (p *pieces) reach() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.Keep
	for i := range p.state {
		s := &p.state[i]
		if s.lost || s.kept && s.place < p.front || !s.kept && !p.wanting(i) {
			continue
		}
		if left -= int64(p.pieces[i].StoredSize); left < 0 {
			return i
		}
	}
	return len(p.state)
}

// extremes are the kept pieces with the lowest and the highest place, -1 when none is kept. Callers hold mu.
func (p *pieces) extremes() (lowest, highest int) {
	lowest, highest = -1, -1
	for i := range p.state {
		place := p.state[i].place
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
	return lowest, highest
}

// drop lets go of the bytes of piece i. Callers hold mu.
func (p *pieces) drop(i int) {
	s := &p.state[i]
	if s.kept || s.coming {
		p.cost -= int64(p.pieces[i].StoredSize)
	}
	if s.kept {
		p.Feeder.Dropped(i)
	}
	s.held, s.kept, s.coming = chunk.Verified{}, false, false
}
