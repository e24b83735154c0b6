package httpapi

import "sync"

// MaxStreams is how many streams one viewer may have: more than the pages that a person watches, and less than the
// connections that one address may open.
const MaxStreams = 32

// Streams counts the answers without an end of each viewer. The zero value is ready to use.
type Streams struct {
	mu sync.Mutex
	of map[string]int
}

// Begin counts one more stream of a viewer, or reports that the viewer has enough. After true, End must be called.
func (s *Streams) Begin(viewer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[viewer] >= MaxStreams {
		return false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.of[viewer]++
	return true
}

// End counts a stream that ended.
func (s *Streams) End(viewer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[viewer]--; s.of[viewer] == 0 {
		delete(s.of, viewer)
	}
}
