package tracker

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// at is the address of node n.
func at(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 7000)
}

func chance() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// newSite serves a tracker, with one pack of that number of pieces and an uplink of rate bytes per second.
func newSite(t *testing.T, pieces int, rate int64) (s *Server, url string, pack chunk.ID) {
	t.Helper()
	pack = chunk.Sum([]byte("pack"))
	s = New(swarm.TrackerOptions{Uplink: rate, Random: chance()}, func(id chunk.ID) []chunk.ID {
		if id == pack {
			return make([]chunk.ID, pieces)
		}
		return nil
	}, nil)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return s, web.URL, pack
}

// joinAs adds node n to the swarm "p" of 40 pieces.
func (s *Server) joinAs(t *testing.T, n byte) {
	t.Helper()
	if _, ok := s.tracker.Announce(s.now(), swarm.Announcement{Swarm: "p", Pieces: 40, Node: at(n)}); !ok {
		t.Fatalf("node %d may not join", n)
	}
}

// spend fills the uplink of a server of one byte per second, and the share for the first boots of a version.
func (s *Server) spend(t *testing.T, pack chunk.ID) {
	t.Helper()
	s.Busy(true)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/swarm/start", nil)
	r.RemoteAddr = "10.9.9.9:999"
	if a, ok := s.join(r, swarm.JoinMessage{Pack: pack.String()}); !ok || a.Again {
		t.Fatalf("the first boot is answered %+v, %v", a, ok)
	}
}

// post sends a message and decodes the reply.
func post(t *testing.T, url string, message, answer any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}

// waitFor waits until good returns true.
func waitFor(t *testing.T, good func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !good(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never was so")
		}
	}
}
