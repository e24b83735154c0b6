package piecestore

import "pando/internal/chunk"

// Read notes that n bytes at offset at of piece i were read. fresh: some of them were unread. last: the piece has no
// unread byte any more.
func (s *Store) Read(i int, at, n int64) (fresh, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.state[i]
	if !p.read {
		p.read = true
		s.front++
		s.stir()
	}
	p.place = s.front
	count := 0
	for b := (p.begin + at) / chunk.BlockSize; b*chunk.BlockSize < p.begin+at+n; b++ {
		if bit := uint64(1) << (b % 64); s.read[b/64]&bit == 0 {
			s.read[b/64] |= bit
			count++
		}
	}
	p.unread -= count
	if count > 0 {
		s.Unread(int64(-count)*chunk.BlockSize, i >= s.Map.Booted)
	}
	return count > 0, count > 0 && p.unread == 0
}

// HasUnread reports whether n bytes at offset at of piece i contain an unread block.
func (s *Store) HasUnread(i int, at, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := s.state[i].begin
	end := begin + min(at+n, int64(s.Map.Pieces[i].RawSize))
	for b := (begin + at) / chunk.BlockSize; b < end/chunk.BlockSize; b++ {
		if s.read[b/64]&(1<<(b%64)) == 0 {
			return true
		}
	}
	return false
}

// Fresh reports whether piece i is held and was not read from yet.
func (s *Store) Fresh(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state[i].held && !s.state[i].read
}

// BootOver notes that the boot is over, so that the pieces for later reads may be fetched.
func (s *Store) BootOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stir()
}

// stir wakes the streams that wait for room, and the follower. The caller holds mu.
func (s *Store) stir() {
	close(s.moved)
	s.moved = make(chan struct{})
	if s.follow != nil {
		s.follow()
	}
}

// Follow sets the function that is called when Changes may return something new. There is one follower. f is called
// with a lock held: it must not block, and must not call the Store.
func (s *Store) Follow(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow = f
}

// Changes returns to the follower what changed since its last call: the pieces that came or went, and those left to it.
// reach is how many pieces, from the first one, may be fetched now.
func (s *Store) Changes() (changed, left []int, reach int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, left, s.changed, s.left = s.changed, s.left, nil, nil
	return changed, left, s.reach()
}

// tell appends a piece to a list of changes. The caller holds mu.
func (s *Store) tell(list *[]int, i int) {
	if s.follow != nil {
		*list = append(*list, i)
		s.follow()
	}
}
