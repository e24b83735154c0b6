package peer

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/swarm"
)

// sent records what a handler has written so far.
type sent struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
	b  []byte
}

func (s *sent) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *sent) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.b
	s.b = nil
	return b
}

// A beat is sent only after a time without news.
func TestBeatsAreForSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(NodeOptions{Pieces: make([]Piece, 12)})
		out := &sent{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/have", nil)
		ended := make(chan struct{})
		go func() {
			n.streamHave(out, r, at(1))
			close(ended)
		}()
		after := func(d time.Duration, want ...byte) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := out.take(); !bytes.Equal(got, want) {
				t.Errorf("told % x, want % x", got, want)
			}
		}
		after(0, 0, 0)
		after(beatEvery/2 + time.Second)
		n.setHave(3, true)
		after(0, 3, 0)
		after(beatEvery - time.Second)
		after(time.Second, beat&0xff, beat>>8)
		// A peer that has all pieces already gets no news of them, and still gets beats.
		n.setPeerHave(at(1), swarm.Bitmap{0xff, 0x0f})
		for p := 4; p < 8; p++ {
			after(beatEvery / 5)
			n.setHave(p, true)
		}
		after(beatEvery/5, beat&0xff, beat>>8)
		n.mu.Lock()
		n.closed = true
		n.sendHave()
		n.mu.Unlock()
		<-ended
	})
}
