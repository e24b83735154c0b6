package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
)

// site is a server on loopback: objects over HTTP, and a tracker.
type site struct {
	*httptest.Server
	objects map[string][]byte
	sent    atomic.Int64
	lost    atomic.Bool // the tracker is not there
	tracker *TrackerServer
	pack    chunk.ID
	pieces  []Piece
}

// newSite has a pack of so many pieces of about 20 kB. The tracker believes in an uplink of rate bytes a second.
func newSite(t *testing.T, pieces int, rate int64) *site {
	t.Helper()
	s := &site{objects: map[string][]byte{}}
	s.pack = chunk.Sum([]byte("pack"))
	s.tracker = NewTrackerServer(TrackerOptions{Uplink: rate, Random: chance()}, s.ids)
	random := rand.NewChaCha8([32]byte{1})
	for i := range pieces {
		b := make([]byte, 20_000+i)
		_, _ = random.Read(b) // never fails
		id := chunk.Sum(b)
		s.objects[id.Name()] = b
		s.pieces = append(s.pieces, Piece{id, int64(len(b))})
	}
	m := http.NewServeMux()
	swarm := s.tracker.Handler()
	m.HandleFunc("/swarm/", func(w http.ResponseWriter, r *http.Request) {
		if s.lost.Load() {
			http.NotFound(w, r)
			return
		}
		swarm.ServeHTTP(w, r)
	})
	m.HandleFunc("GET /o/{id}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := w.Write(s.objects[r.PathValue("id")])
		s.sent.Add(int64(n))
		id, err := chunk.ParseID(r.PathValue("id"))
		if err != nil {
			t.Error(err)
		}
		s.tracker.Sent(asker(r, 1).Addr(), id)
	})
	s.Server = httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s
}

// ids are the pieces of the only pack.
func (s *site) ids(pack chunk.ID) (ids []chunk.ID) {
	if pack == s.pack {
		for _, p := range s.pieces {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

func (s *site) w() (sum int64) {
	for _, p := range s.pieces {
		sum += p.Size
	}
	return sum
}

// unobserved is for a Failover that nobody looks at.
type unobserved struct{}

func (unobserved) Received(string, int)           {}
func (unobserved) Failed(string, chunk.ID, error) {}

// live is a node that runs.
type live struct {
	*Node
	cancel context.CancelFunc
	ended  chan struct{}
	all    chan struct{} // closed when it has every piece

	mu   sync.Mutex
	from map[string]int // bytes by source
	bad  []netip.AddrPort
}

// start runs node i, which has the address 127.0.0.(10+i).
func (s *site) start(t *testing.T, i int) *live {
	t.Helper()
	self := netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)})
	l, err := net.Listen("tcp", netip.AddrPortFrom(self, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	failover, err := store.NewFailover(unobserved{}, &store.HTTP{URL: s.URL, Client: store.NewClient(8)})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	n := &live{all: make(chan struct{}), ended: make(chan struct{}), from: map[string]int{}}
	left := len(s.pieces)
	n.Node = NewNode(NodeOptions{Pack: s.pack, Pieces: s.pieces, Origin: store.NewRetry(failover, log), Tracker: s.URL,
		Port: l.Addr().(*net.TCPAddr).AddrPort().Port(), Self: self, Log: log,
		Got: func(p int, v chunk.Verified) {
			if v.ID() != s.pieces[p].ID {
				t.Errorf("piece %d is %s", p, v.ID())
			}
			if left--; left == 0 {
				close(n.all)
			}
		},
		Received: func(source string, bytes int) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.from[source] += bytes
		},
		Accused: func(a netip.AddrPort, _ chunk.ID) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.bad = append(n.bad, a)
		}})
	n.patience = time.Minute // a busy machine takes longer than a network
	srv := &http.Server{Handler: n.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(l) }() // it ends with Close
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { defer close(n.ended); n.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-n.ended; srv.Close() })
	return n
}

func (n *live) wait(t *testing.T) {
	t.Helper()
	select {
	case <-n.all:
	case <-time.After(time.Minute):
		t.Fatalf("only %d pieces came", n.have())
	}
}

func (n *live) have() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	return len(n.order)
}

// Real nodes over real sockets: all have all, and the server sent little more than one copy.
func TestStormOverSockets(t *testing.T) {
	s := newSite(t, 60, 4_000_000)
	var nodes []*live
	for i := range 16 {
		nodes = append(nodes, s.start(t, i))
	}
	var peers, messages, control int64
	for _, n := range nodes {
		n.wait(t)
		n.mu.Lock()
		peers += int64(n.from["peer"])
		n.mu.Unlock()
		m, c := n.Control()
		messages, control = messages+m, control+c
	}
	t.Logf("server %.2f W, peers %.2f W, %d messages and %d bytes of control a node", float64(s.sent.Load())/float64(s.w()),
		float64(peers)/float64(s.w()), messages/16, control/16)
	if s.sent.Load() > 3*s.w() {
		t.Errorf("the server sent %d bytes, three times W is %d", s.sent.Load(), 3*s.w())
	}
	if got := s.sent.Load() + peers; got < 16*s.w() {
		t.Errorf("%d bytes came, %d are needed", got, 16*s.w())
	}
	if s.tracker.Nodes() != 16 {
		t.Errorf("the tracker knows %d nodes", s.tracker.Nodes())
	}
	late := s.start(t, 20)
	before := s.sent.Load()
	late.wait(t)
	if got := s.sent.Load() - before; got > s.w()/2 {
		t.Errorf("one that came late took %d bytes from the server", got)
	}
	nodes[0].cancel()
	<-nodes[0].ended
	if s.tracker.Nodes() != 16 {
		t.Errorf("one left, and the tracker knows %d nodes", s.tracker.Nodes())
	}
}

// hostile is a peer that says it has everything, and sends what it likes.
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
		_, _ = w.Write(upTo(len(s.pieces), len(s.pieces))) // the node is gone when this fails
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	srv := httptest.NewUnstartedServer(m)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	c := trackerClient{s.URL, client(self, 1), new(atomic.Int64), new(atomic.Int64)}
	q := joinMessage{Pack: s.pack.String(), Pieces: len(s.pieces), Port: l.Addr().(*net.TCPAddr).AddrPort().Port()}
	if err := c.post(t.Context(), "join", q, &joinReply{}, time.Second); err != nil {
		t.Fatal(err)
	}
}

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
			_, _ = w.Write(make([]byte, 100)) // what follows is missing
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, false},
		"no word": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"busy":    {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 20, 0)
			var asked atomic.Bool // on a slow machine the tracker may have given everything before
			s.hostile(t, 1, func(w http.ResponseWriter, r *http.Request) {
				asked.Store(true)
				x.send(w, r)
			})
			n := s.start(t, 1)
			// The read that waits for a piece gets it, whatever the peer does.
			if v, err := n.Get(t.Context(), s.pieces[7].ID, s.pieces[7].Size); err != nil || v.ID() != s.pieces[7].ID {
				t.Fatalf("%v", err)
			}
			for i, p := range s.pieces {
				if _, err := n.Get(t.Context(), p.ID, p.Size); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
			n.wait(t)
			n.mu.Lock()
			defer n.mu.Unlock()
			if (len(n.bad) > 0) != (x.banned && asked.Load()) || n.from["peer"] > 0 {
				t.Errorf("accused %v; took %d bytes from it", n.bad, n.from["peer"])
			}
		})
	}
}

// The tracker may go at any moment; objects go on coming.
func TestTrackerGoesOverSockets(t *testing.T) {
	s := newSite(t, 40, 200_000) // with this uplink the tracker alone would take four seconds
	a, b := s.start(t, 1), s.start(t, 2)
	if _, err := a.Get(t.Context(), s.pieces[0].ID, 0); err != nil {
		t.Fatal(err)
	}
	s.lost.Store(true)
	a.wait(t)
	b.wait(t)
}

func TestNoTrackerAtAll(t *testing.T) {
	s := newSite(t, 10, 0)
	failover, err := store.NewFailover(unobserved{}, &store.HTTP{URL: s.URL, Client: store.NewClient(8)})
	if err != nil {
		t.Fatal(err)
	}
	n := NewNode(NodeOptions{Pieces: s.pieces, Origin: store.NewRetry(failover, slog.Default()), Log: slog.Default()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go n.Run(ctx)
	for _, p := range s.pieces {
		if _, err := n.Get(ctx, p.ID, p.Size); err != nil {
			t.Fatal(err)
		}
	}
	if m, _ := n.Control(); m > 0 || s.sent.Load() != s.w() {
		t.Errorf("%d messages; the server sent %d bytes of %d", m, s.sent.Load(), s.w())
	}
}

// An object outside of the pack comes from the one who fetched it before, once the uplink is spent.
func TestLooseObjectComesFromItsLastFetcher(t *testing.T) {
	s := newSite(t, 2, 1) // a byte a second: whatever is sent spends it
	extra := []byte(strings.Repeat("firefox ", 1000))
	id := chunk.Sum(extra)
	s.objects[id.Name()] = extra
	a, b := s.start(t, 1), s.start(t, 2)
	a.wait(t)
	b.wait(t)
	if _, err := a.Get(t.Context(), id, int64(len(extra))); err != nil {
		t.Fatal(err)
	}
	before := s.sent.Load()
	v, err := b.Get(t.Context(), id, int64(len(extra)))
	if err != nil || v.ID() != id {
		t.Fatal(err)
	}
	// A slow machine may hedge, and then both send it.
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.sent.Load() != before && b.from["origin"] == 0 {
		t.Errorf("the server sent %d bytes", s.sent.Load()-before)
	}
	if s.sent.Load() == before && b.from["peer"] < len(extra) {
		t.Errorf("neither the server nor a peer sent it: %v", b.from)
	}
}

// Messages are bounded and strange ones refused; the address is that of who asks.
func TestTrackerMessages(t *testing.T) {
	s := newSite(t, 4, 0)
	send := func(path, body string) (int, string) {
		body = strings.ReplaceAll(body, "PACK", s.pack.String())
		resp, err := http.Post(s.URL+"/swarm/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for name, x := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":            {"join", "x", 400},
		"too large":          {"join", `{"pack":"` + strings.Repeat("x", maxMessage) + `"}`, 400},
		"no port":            {"join", `{"pack":"PACK","pieces":4}`, 404},
		"ask without a join": {"ask", `{"pack":"PACK","port":80,"want":[0],"max":1}`, 404},
		"join":               {"join", `{"pack":"PACK","pieces":4,"port":80,"prefix":99}`, 200},
		"no such way":        {"x", `{}`, 404},
		"another pack":       {"join", `{"pack":"sha256:00","pieces":4,"port":80}`, 404},
		"too few pieces":     {"join", `{"pack":"PACK","pieces":3,"port":80}`, 404},
	} {
		if code, text := send(x.path, x.body); code != x.status {
			t.Errorf("%s: status %d %s", name, code, text)
		}
	}
	_, text := send("join", `{"pack":"PACK","pieces":4,"port":81}`)
	var a joinReply
	if err := json.Unmarshal([]byte(text), &a); err != nil || fmt.Sprint(a.Peers) != "[127.0.0.1:80]" {
		t.Errorf("joined: %s, %v", text, err)
	}
}

// Only a transfer that was granted, and is over, makes room where the uplink's rate is not known.
func TestOnlyGrantsMakeRoom(t *testing.T) {
	s := newSite(t, 20, 0)
	node := netip.MustParseAddrPort("10.0.0.1:80")
	for range unknownMost {
		s.tracker.tracker.uplink.spend(s.tracker.now(), 1)
	}
	s.tracker.note(node.Addr(), []int{3}, s.ids(s.pack))
	open := func() int { return len(s.tracker.tracker.uplink.open) }
	s.tracker.Sent(node.Addr(), s.pieces[4].ID)
	s.tracker.Sent(netip.MustParseAddr("10.0.0.2"), s.pieces[3].ID)
	if open() != unknownMost {
		t.Errorf("a transfer that nobody granted made room: %d are under way", open())
	}
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	if open() != unknownMost-1 {
		t.Errorf("one grant is over, and %d are under way", open())
	}
}
