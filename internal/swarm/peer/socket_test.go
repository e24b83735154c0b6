package peer

import (
	"context"
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
	"pando/internal/swarm"
	"pando/internal/swarm/tracker"
)

// site is a server on loopback: objects over HTTP, and a tracker.
type site struct {
	*httptest.Server
	objects        map[string][]byte
	sent           atomic.Int64
	lost           atomic.Bool   // the tracker is gone
	gate           chan struct{} // objects are sent after this is closed; nil: at once
	tracker        atomic.Pointer[tracker.Server]
	pack           chunk.ID
	pieces         []Piece
	proofs         int          // reports that ban a node; 0: the default
	demandRequests atomic.Int64 // requests to the tracker for demand objects
}

// newSite returns a site with a pack of that number of pieces of about 20 kB. The tracker assumes an uplink of rate
// bytes per second.
func newSite(t *testing.T, pieces int, rate int64) *site {
	t.Helper()
	s := &site{objects: map[string][]byte{}}
	s.pack = chunk.Sum([]byte("pack"))
	s.restart(rate)
	random := rand.NewChaCha8([32]byte{1})
	for i := range pieces {
		b := make([]byte, 20_000+i)
		_, _ = random.Read(b) // never fails
		id := chunk.Sum(b)
		s.objects[id.Name()] = b
		s.pieces = append(s.pieces, Piece{id, int64(len(b))})
	}
	m := http.NewServeMux()
	m.HandleFunc("/swarm/", func(w http.ResponseWriter, r *http.Request) {
		if s.lost.Load() {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/swarm/loose" {
			s.demandRequests.Add(1)
		}
		s.tracker.Load().Handler().ServeHTTP(w, r)
	})
	m.HandleFunc("GET /o/{id}", func(w http.ResponseWriter, r *http.Request) {
		if s.objects[r.PathValue("id")] == nil {
			http.NotFound(w, r)
			return
		}
		if s.gate != nil {
			<-s.gate
		}
		n, _ := w.Write(s.objects[r.PathValue("id")])
		s.sent.Add(int64(n))
		id, err := chunk.ParseID(r.PathValue("id"))
		if err != nil {
			t.Error(err)
		}
		s.tracker.Load().Sent(swarm.NodeAddr(r.RemoteAddr, 1).Addr(), id)
	})
	s.Server = httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s
}

// restart replaces the tracker by one that knows no node.
func (s *site) restart(rate int64) {
	s.tracker.Store(tracker.New(swarm.TrackerOptions{Uplink: rate, Random: chance(), BanReports: s.proofs}, s.ids, nil))
}

// spend fills the uplink of a site of one byte per second, and the share for the first boots of a version.
func (s *site) spend(t *testing.T) {
	t.Helper()
	s.tracker.Load().Busy(true)
	other := client(netip.MustParseAddr("127.0.0.99"), 1, nil)
	if h := Join(t.Context(), other, []string{s.URL}, JoinOptions{Pack: s.pack}); h.Peers != nil {
		t.Fatalf("the first boot is told %+v", h)
	}
}

// ids returns the pieces of the only pack.
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

// live is a running node with its piece store and its observer.
type live struct {
	*Node
	t      *testing.T
	site   *site
	cancel context.CancelFunc
	ended  chan struct{}
	all    chan struct{} // closed when every piece has arrived

	answering atomic.Int32 // object requests that it has not answered yet

	mu         sync.Mutex
	kept       map[int]chunk.Verified
	came       map[int]bool
	notHad     map[int]error  // pieces that are lost
	changed    []int          // pieces that came or went
	from       map[string]int // bytes by source
	bad        []netip.AddrPort
	left       []swarm.AvoidedPeer
	failed     []swarm.AvoidedPeer
	gone       []netip.AddrPort
	registered []bool // reports of whether a tracker answers
}

func (n *live) Put(p int, v chunk.Verified, _ bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v.ID() != n.site.pieces[p].ID {
		n.t.Errorf("piece %d is %s", p, v.ID())
	}
	n.kept[p] = v
	n.change(p)
	if n.came[p] = true; len(n.came) == len(n.site.pieces) {
		select {
		case <-n.all:
		default:
			close(n.all)
		}
	}
	return true
}

func (n *live) Piece(p int) (v chunk.Verified, held bool, lost error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, held = n.kept[p]
	return v, held, n.notHad[p]
}

func (n *live) Lose(p int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notHad[p] = err
}

func (n *live) Changes() (changed, left []int, reach int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed, n.changed = n.changed, nil
	return changed, nil, len(n.site.pieces)
}

// change notes that a piece came or went. The caller holds mu.
func (n *live) change(p int) {
	n.changed = append(n.changed, p)
	n.Moved()
}

// drop drops a piece.
func (n *live) drop(p int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.kept, p)
	n.change(p)
}

func (n *live) count(source string, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.from[source] += bytes
}

func (n *live) bytes(source string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.from[source]
}

func (n *live) Received(_ netip.AddrPort, bytes int) { n.count("peer", bytes) }
func (n *live) Uploaded(_ netip.AddrPort, bytes int) { n.count("uploaded", bytes) }
func (n *live) Failed(string, chunk.ID, error)       {}

func (n *live) Corrupt(a netip.AddrPort, _ chunk.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad = append(n.bad, a)
}

func (n *live) Left(l swarm.AvoidedPeer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = append(n.left, l)
}

func (n *live) PeersFailed(peers []swarm.AvoidedPeer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = append(n.failed, peers...)
}

func (n *live) Vanished(a netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = append(n.gone, a)
}

func (n *live) Tracker(_ string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registered = append(n.registered, err == nil)
}

// origin counts the bytes that come from the server.
type origin struct{ n *live }

func (o origin) Received(_ string, bytes int)   { o.n.count("origin", bytes) }
func (o origin) Failed(string, chunk.ID, error) {}

// start runs node i, which has the address 127.0.0.(10+i).
func (s *site) start(t *testing.T, i int, change ...func(*NodeOptions)) *live {
	t.Helper()
	self := netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + i)})
	l, err := net.Listen("tcp", netip.AddrPortFrom(self, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	n := &live{t: t, site: s, all: make(chan struct{}), ended: make(chan struct{}), from: map[string]int{},
		kept: map[int]chunk.Verified{}, came: map[int]bool{}, notHad: map[int]error{}}
	failover, err := store.NewFailover(origin{n}, &store.HTTP{URL: s.URL, Client: store.NewClient(8, nil)})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	o := NodeOptions{Pack: s.pack, Pieces: s.pieces, Origin: store.NewRetry(failover, log), Store: n,
		Trackers: []string{s.URL}, Port: l.Addr().(*net.TCPAddr).AddrPort().Port(), Self: self,
		DemandBytes: 4 << 20, Observer: n, Log: log}
	for _, c := range change {
		c(&o)
	}
	n.Node = NewNode(o)
	n.joinWait = time.Minute // a busy machine takes longer than a network
	h := n.Handler()
	srv := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/o/") {
				n.answering.Add(1)
				defer n.answering.Add(-1)
			}
			h.ServeHTTP(w, r)
		}),
	}
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
		n.mu.Lock()
		defer n.mu.Unlock()
		t.Fatalf("only %d pieces came", len(n.came))
	}
}

// Real nodes over real sockets: every node gets everything, and the server sends little more than one copy.
func TestStormOverSockets(t *testing.T) {
	s := newSite(t, 60, 4_000_000)
	var nodes []*live
	for i := range 16 {
		nodes = append(nodes, s.start(t, i))
	}
	var peers, messages, control int64
	for _, n := range nodes {
		n.wait(t)
		peers += int64(n.bytes("peer"))
		messages, control = messages+n.Control().Messages, control+n.Control().Bytes
	}
	t.Logf(
		"server %.2f W, peers %.2f W, %d messages and %d bytes of control a node",
		float64(s.sent.Load())/float64(s.w()),
		float64(peers)/float64(s.w()),
		messages/16,
		control/16,
	)
	if s.sent.Load() > 3*s.w() {
		t.Errorf("the server sent %d bytes, three times W is %d", s.sent.Load(), 3*s.w())
	}
	if got := s.sent.Load() + peers; got < 16*s.w() {
		t.Errorf("%d bytes came, %d are needed", got, 16*s.w())
	}
	if s.tracker.Load().Nodes() != 16 {
		t.Errorf("the tracker knows %d nodes", s.tracker.Load().Nodes())
	}
	late := s.start(t, 20)
	before := s.sent.Load()
	late.wait(t)
	if got := s.sent.Load() - before; got > s.w()/2 {
		t.Errorf("one that came late took %d bytes from the server", got)
	}
	nodes[0].cancel()
	<-nodes[0].ended
	if s.tracker.Load().Nodes() != 16 {
		t.Errorf("one left, and the tracker knows %d nodes", s.tracker.Load().Nodes())
	}
}

// No node serves kernel+initrd to another: it knows no path of the server for firmware, and the kernel is no object of
// the swarm.
func TestNodesHaveNoK(t *testing.T) {
	s := newSite(t, 2, 4_000_000)
	n := s.start(t, 0)
	n.wait(t)
	kernel := []byte("a kernel, which the server has")
	s.objects[chunk.Sum(kernel).Name()] = kernel
	for _, x := range []struct {
		path string
		want int
	}{
		{"/o/" + s.pieces[0].ID.Name(), http.StatusOK}, // a piece that it has
		{"/o/" + s.pieces[0].ID.Short().String(), http.StatusOK},
		{"/o/" + s.pieces[0].ID.Name()[:15], http.StatusNotFound},
		{"/o/0123456789abcdef", http.StatusNotFound},
		{"/o/" + chunk.Sum(kernel).Name(), http.StatusNotFound},
		{"/boot/script?mac=52-54-00-00-00-01", http.StatusNotFound},
		{"/boot/0123456789abcdef/initramfs", http.StatusNotFound},
		{"/boot/file/snponly.efi", http.StatusNotFound},
	} {
		res, err := http.Get("http://" + netip.AddrPortFrom(n.o.Self, n.o.Port).String() + x.path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != x.want {
			t.Errorf("%s: status %d, want %d", x.path, res.StatusCode, x.want)
		}
	}
}
