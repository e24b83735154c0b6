package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/swarm"
)

// hostile is a peer that claims to have all pieces, and whose replies the test chooses.
func (s *site) hostile(t *testing.T, i int, send http.HandlerFunc) {
	t.Helper()
	self := netip.AddrFrom4([4]byte{127, 0, 0, byte(100 + i)})
	l, err := net.Listen("tcp", netip.AddrPortFrom(self, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	m := http.NewServeMux()
	m.HandleFunc("GET /o/{id}", send)
	m.HandleFunc("GET /have", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerPack, s.pack.String())
		_, _ = w.Write(upTo(len(s.pieces), len(s.pieces))) // fails only when the node is gone
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	srv := httptest.NewUnstartedServer(m)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	c := trackerClient{s.URL, client(self, 1, nil), new(atomic.Int64), new(atomic.Int64)}
	q := swarm.AnnounceMessage{
		Pack:   s.pack.String(),
		Pieces: len(s.pieces),
		Port:   swarm.WirePort(l.Addr().(*net.TCPAddr).AddrPort().Port()),
	}
	if err := c.post(t.Context(), "join", q, &swarm.AnnounceReplyMessage{}, time.Second); err != nil {
		t.Fatal(err)
	}
}

// fastUplink is a rate that a tracker knows. Without a rate, the tracker waits seconds for each piece that it does not
// see sent.
const fastUplink = 4_000_000

func TestHostilePeers(t *testing.T) {
	for name, x := range map[string]struct {
		send   http.HandlerFunc
		banned bool
	}{
		"wrong bytes": {func(w http.ResponseWriter, r *http.Request) {
			n := 20_000
			for range 60 {
				if _, err := w.Write(make([]byte, n/60)); err != nil {
					return
				}
			}
		}, true},
		"endless body": {func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 65536)); err != nil {
					return
				}
			}
		}, true},
		"short body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(make([]byte, 100)) // the rest is missing
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, false},
		"no word": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"busy": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 20, fastUplink)
			var asked atomic.Bool // on a slow machine the tracker may have granted all pieces before
			s.hostile(t, 1, func(w http.ResponseWriter, r *http.Request) {
				asked.Store(true)
				x.send(w, r)
			})
			n := s.start(t, 1)
			// The read gets its piece, whatever the peer does.
			if v, err := n.Get(t.Context(), chunk.Request{ID: s.pieces[7].ID, Size: s.pieces[7].Size}); err != nil ||
				v.ID() != s.pieces[7].ID {
				t.Fatalf("%v", err)
			}
			for i, p := range s.pieces {
				if _, err := n.Get(t.Context(), chunk.Request{ID: p.ID, Size: p.Size}); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
			n.wait(t)
			n.mu.Lock()
			defer n.mu.Unlock()
			if (len(n.bad) > 0) != (x.banned && asked.Load()) || n.from["peer"] > 0 {
				t.Errorf("reported corrupt %v; took %d bytes from it", n.bad, n.from["peer"])
			}
		})
	}
}

// If the tracker goes away, objects still arrive.
func TestTrackerGoesOverSockets(t *testing.T) {
	s := newSite(t, 40, 200_000) // with this uplink the tracker alone would take four seconds
	a, b := s.start(t, 1), s.start(t, 2)
	if _, err := a.Get(t.Context(), chunk.Request{ID: s.pieces[0].ID}); err != nil {
		t.Fatal(err)
	}
	s.lost.Store(true)
	a.wait(t)
	b.wait(t)
}

func TestNoTrackerAtAll(t *testing.T) {
	s := newSite(t, 10, 0)
	n := s.start(t, 1, func(o *NodeOptions) { o.Trackers = nil })
	for _, p := range s.pieces {
		if _, err := n.Get(t.Context(), chunk.Request{ID: p.ID, Size: p.Size}); err != nil {
			t.Fatal(err)
		}
	}
	n.wait(t)
	if n.Control().Messages > 0 || s.sent.Load() != s.w() {
		t.Errorf("%d messages; the server sent %d bytes of %d", n.Control().Messages, s.sent.Load(), s.w())
	}
}

// A server without a tracker, such as one of an older release, still serves objects. The observer is told once.
func TestServerWithoutATracker(t *testing.T) {
	s := newSite(t, 30, 0)
	s.lost.Store(true)
	n := s.start(t, 1)
	n.wait(t)
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.sent.Load() != s.w() || fmt.Sprint(n.registered) != "[false]" {
		t.Errorf("the server sent %d bytes of %d; trackers %v", s.sent.Load(), s.w(), n.registered)
	}
}

// A tracker that lost its state knows its nodes again after their next request. The observer is told, and the server
// sends nothing twice.
func TestTrackerForgetsOverSockets(t *testing.T) {
	s := newSite(t, 40, 400_000)
	s.gate = make(chan struct{})
	a, b := s.start(t, 1), s.start(t, 2)
	for s.tracker.Load().Nodes() < 2 { // they have announced themselves, and have no piece yet
		time.Sleep(time.Millisecond)
	}
	s.restart(400_000)
	close(s.gate)
	if _, err := a.Get(t.Context(), chunk.Request{ID: s.pieces[3].ID}); err != nil {
		t.Fatal(err)
	}
	a.wait(t)
	b.wait(t)
	waitFor(t, func() bool { return s.tracker.Load().Nodes() == 2 }) // a node with all pieces announces itself too
	if s.sent.Load() > 2*s.w()-1 {
		t.Errorf("the server sent %d bytes, W is %d", s.sent.Load(), s.w())
	}
	for _, n := range []*live{a, b} {
		n.mu.Lock()
		if fmt.Sprint(n.registered) != "[true false true]" {
			t.Errorf("trackers %v: it had forgotten this node once", n.registered)
		}
		n.mu.Unlock()
	}
}

// With two servers, the swarm goes on at the second one when the first is gone.
func TestSecondTracker(t *testing.T) {
	s := newSite(t, 20, 0)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	n := s.start(t, 1, func(o *NodeOptions) { o.Trackers = []string{gone.URL, s.URL} })
	n.wait(t)
	waitFor(t, func() bool { return s.tracker.Load().Nodes() == 1 })
}

// A piece that the store has no room for is not fetched ahead. Peers are told of dropped pieces. A read of a dropped
// piece gets it again.
func TestSmallPieceStore(t *testing.T) {
	s := newSite(t, 40, fastUplink)
	a := s.start(t, 1)
	a.wait(t)
	b := s.start(t, 2, func(o *NodeOptions) { o.Idle = true })
	for _, p := range []int{30, 4} {
		if _, err := b.Get(t.Context(), chunk.Request{ID: s.pieces[p].ID}); err != nil {
			t.Fatal(err)
		}
	}
	b.mu.Lock()
	if len(b.came) != 2 {
		t.Errorf("an idle node fetched %d pieces, want the two that were read", len(b.came))
	}
	b.mu.Unlock()
	b.drop(30)
	if _, err := b.Get(t.Context(), chunk.Request{ID: s.pieces[30].ID}); err != nil {
		t.Fatal(err)
	}
	a.drop(7)
	waitFor(t, func() bool { has, _, _ := a.having(netip.AddrPort{}, nil); return !has.Has(7) })
	c := s.start(t, 3)
	c.wait(t) // piece 7 too
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.left)+len(c.bad) > 0 {
		t.Errorf("a peer that let go of a piece was left: %v, %v", c.left, c.bad)
	}
}

// A watcher is told only of pieces that it lacks.
func TestHavingIsBrief(t *testing.T) {
	n := NewNode(NodeOptions{Pieces: make([]Piece, 12)})
	n.have = upTo(12, 5) // 0 to 4
	a := netip.MustParseAddrPort("192.0.2.1:80")
	n.setPeerHave(a, swarm.NewBitmap(12))
	for _, p := range []int{0, 2, 9} {
		n.setPeerPiece(a, p, true)
	}
	n.setPeerPiece(a, 500, true) // no such piece
	told := swarm.NewBitmap(12)
	told.Set(2) // before the peer had it
	told.Set(8) // told before, and dropped since
	now, _, _ := n.having(a, told)
	if got := appendChanges(nil, told, now); !bytes.Equal(got, []byte{1, 0, 3, 0, 4, 0, 8, gone >> 8}) {
		t.Errorf("told %v", got)
	}
	n.setPeerPiece(a, 0, false) // the peer dropped it
	if now, _, _ = n.having(a, told); !now.Has(0) {
		t.Error("who let go of a piece is not told who has it")
	}
	n.setPeerHave(a, nil)
	if now, _, _ = n.having(a, told); now.Count() != 5 {
		t.Errorf("of one who is not watched any more %d pieces are believed to be his", 5-now.Count())
	}
}

// News of a rare piece, and of a dropped one, is sent at once. News of a common piece is sent a little later, or with
// other news.
func TestNewsOfCommonPiecesWaits(t *testing.T) {
	const common = 3 // peers that have a common piece
	// acquainted returns a node with four peers, three of which have the first five pieces, and the usual transfer
	// time. told reports whether the watchers were told of a change since its last call.
	acquainted := func(usual time.Duration) (n *Node, told func() bool) {
		n = NewNode(NodeOptions{Pieces: make([]Piece, 12)})
		n.swarm = swarm.NewFetcher(swarm.FetcherOptions{Pieces: 12, Random: chance()})
		n.swarm.SetTracker(0, true)
		for i := range common {
			n.swarm.AddPeers(0, at(byte(i+1)))
			n.swarm.PeerHas(at(byte(i+1)), upTo(12, 5))
		}
		n.swarm.AddPeers(0, at(common+1))
		n.swarm.Done(usual, n.swarm.Next(0).Fetch[0])
		last := n.changed
		return n, func() bool { // since its last call
			was := n.changed != last
			last = n.changed
			return was
		}
	}
	n, told := acquainted(time.Hour)
	if n.setHave(0, true); told() || n.haveAt == 0 {
		t.Error("word of what all have does not wait")
	}
	if n.setHave(9, true); !told() || n.haveAt != 0 {
		t.Error("word of what nobody has waits")
	}
	n.setHave(1, true)
	if n.setHave(9, false); !told() || n.haveAt != 0 {
		t.Error("word of what is gone waits")
	}
	n.swarm.PeerHas(at(common+1), upTo(12, 1))
	n.setHave(0, false)
	n.setHave(0, true)
	late := n.haveAt
	if n.setHave(2, true); n.haveAt == 0 || n.haveAt >= late {
		t.Error("what fewer have waits for what more have")
	}
	n, told = acquainted(10 * ms)
	n.setHave(3, true)
	waitFor(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return told()
	})
	if n.swarm.PeerLeft(at(1)); n.swarm.HaveDelay(4) != 0 {
		t.Error("what fewer have is common")
	}
}

// waitFor waits until good returns true.
func waitFor(t *testing.T, good func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !good() {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
		time.Sleep(5 * time.Millisecond) // do not spin
	}
}

// The peers of a node that leaves notice it at once. The node itself still reads.
func TestLeave(t *testing.T) {
	s := newSite(t, 20, fastUplink)
	a, b := s.start(t, 1), s.start(t, 2)
	a.wait(t)
	b.wait(t)
	waitFor(t, func() bool { return s.tracker.Load().Nodes() == 2 })
	a.Leave(t.Context())
	if s.tracker.Load().Nodes() != 1 {
		t.Errorf("the tracker knows %d nodes", s.tracker.Load().Nodes())
	}
	resp, err := http.Get("http://" + netip.AddrPortFrom(a.o.Self, a.o.Port).String() + "/o/" + s.pieces[0].ID.Name())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one that left answers with status %d", resp.StatusCode)
	}
	a.drop(3)
	if _, err := a.Get(t.Context(), chunk.Request{ID: s.pieces[3].ID}); err != nil {
		t.Error(err)
	}
	a.Leave(t.Context()) // a second call
}

// A piece that no server has is an error for its own read alone, which uses chunks instead.
func TestLostPiece(t *testing.T) {
	s := newSite(t, 10, fastUplink)
	delete(s.objects, s.pieces[4].ID.Name())
	n := s.start(t, 1)
	for range 2 {
		if _, err := n.Get(t.Context(), chunk.Request{ID: s.pieces[4].ID}); !errors.Is(err, store.ErrMissing) {
			t.Fatalf("got %v", err)
		}
	}
	for i, p := range s.pieces {
		if _, err := n.Get(t.Context(), chunk.Request{ID: p.ID, Size: p.Size}); err != nil && i != 4 {
			t.Error(err)
		}
	}
}

// On a full uplink, a demand object comes from the node that fetched it before.
func TestDemandObjectComesFromItsLastFetcher(t *testing.T) {
	s := newSite(t, 2, 1) // a byte per second: any transfer fills the uplink
	extra := []byte(strings.Repeat("firefox ", 1000))
	id := chunk.Sum(extra)
	s.objects[id.Name()] = extra
	a, b := s.start(t, 1), s.start(t, 2)
	for _, n := range []*live{a, b} {
		n.wait(t)
		waitFor(t, func() bool { return n.sharing.Load() }) // a node without peers asks none
	}
	if _, err := a.Get(t.Context(), chunk.Request{ID: id, Size: int64(len(extra))}); err != nil {
		t.Fatal(err)
	}
	before, origin := s.sent.Load(), b.bytes("origin")
	v, err := b.Get(t.Context(), chunk.Request{ID: id, Size: int64(len(extra))})
	if err != nil || v.ID() != id {
		t.Fatal(err)
	}
	// A slow machine may hedge, and then both send the object.
	if s.sent.Load() != before && b.bytes("origin") == origin {
		t.Errorf("the server sent %d bytes", s.sent.Load()-before)
	}
	if s.sent.Load() == before && b.bytes("peer") < len(extra) {
		t.Errorf("neither the server nor a peer sent it: %v", b.from)
	}
}

// Nodes whose clocks differ by hours form a working swarm.
func TestClocksDiffer(t *testing.T) {
	s := newSite(t, 40, 4_000_000)
	var nodes []*live
	for i, off := range []time.Duration{0, 5 * time.Hour, 300 * 24 * time.Hour, time.Second} {
		nodes = append(nodes, s.start(t, i, func(o *NodeOptions) { o.clock = time.Now().Add(-off) }))
	}
	got := 0
	for _, n := range nodes {
		n.wait(t)
		got += n.bytes("peer")
		n.mu.Lock()
		if len(n.bad) > 0 {
			t.Errorf("reported corrupt %v", n.bad)
		}
		n.mu.Unlock()
	}
	if got == 0 {
		t.Error("nothing came from peers")
	}
}
