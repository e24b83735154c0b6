package peer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
)

// A crowd is real nodes, hundreds of them in one process, each with an address of its own on loopback, and a real tracker. All that they say to each other goes over
// sockets. The boot is that of a server: the pieces of its pack, and objects beside it. Links are so slow that the processors, which do the work of all, are not what
// a storm waits for.
const (
	crowdPieces = 237
	crowdPiece  = 40 << 10
	crowdLoose  = 3 // objects that a boot reads beside its pack
	crowdSmall  = 16 << 10
)

// crowdTakes is how long a link takes for a boot.
func crowdTakes(nodes int) time.Duration { return time.Minute + time.Duration(nodes)*200*time.Millisecond }

// crowdServer is a server's data path: its link, the tracker, and all objects.
type crowdServer struct {
	tracker *TrackerServer
	link    *slowLink
	objects map[string][]byte
	pieces  []Piece
	held    []chunk.Verified // the pieces
	loose   []Piece
	pack    chunk.ID
	files   StartFiles
	url     string
	asked   atomic.Int64 // messages and objects
	sent    atomic.Int64 // bytes of objects
}

// slowLink is one direction of a link, which bytes pass one after the other.
type slowLink struct {
	rate float64 // bytes a second

	mu    sync.Mutex
	until time.Time
}

func (l *slowLink) pass(n int) {
	l.mu.Lock()
	now := time.Now()
	if l.until.Before(now) {
		l.until = now
	}
	l.until = l.until.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	wait := l.until.Sub(now)
	l.mu.Unlock()
	time.Sleep(wait)
}

// slowListener is a host's port: what it answers passes its link.
type slowListener struct {
	net.Listener
	link *slowLink
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return slowConn{c, l.link}, err
}

type slowConn struct {
	net.Conn
	link *slowLink
}

func (c slowConn) Write(b []byte) (int, error) {
	c.link.pass(len(b))
	return c.Conn.Write(b)
}

func newCrowdServer(tb testing.TB, nodes int) *crowdServer {
	tb.Helper()
	rate := float64(crowdPieces*crowdPiece) / crowdTakes(nodes).Seconds()
	s := &crowdServer{link: &slowLink{rate: rate}, objects: map[string][]byte{}}
	random := rand.NewChaCha8([32]byte{1})
	object := func(size int) Piece {
		b := make([]byte, size)
		_, _ = random.Read(b) // never fails
		id := chunk.Sum(b)
		s.objects["/o/"+id.Name()] = b
		return Piece{id, int64(size)}
	}
	for range crowdPieces {
		p := object(crowdPiece)
		v, err := chunk.Check(p.ID, s.objects["/o/"+p.ID.Name()])
		if err != nil {
			tb.Fatal(err)
		}
		s.pieces, s.held = append(s.pieces, p), append(s.held, v)
	}
	for range crowdLoose {
		s.loose = append(s.loose, object(crowdSmall))
	}
	m := object(crowdPieces * startPiece)
	s.pack = m.ID
	s.files = StartFiles{Manifest: []byte("a manifest"), Signature: []byte("its signature")}
	var err error
	if s.files.Map, err = chunk.Check(s.pack, s.objects["/o/"+s.pack.Name()]); err != nil {
		tb.Fatal(err)
	}
	name := "/m/" + manifestName(s.files.Manifest)
	s.objects[name], s.objects[name+".minisig"] = s.files.Manifest, s.files.Signature
	s.tracker = NewTrackerServer(TrackerOptions{Uplink: int64(rate), Random: chance()}, func(chunk.ID) (ids []chunk.ID) {
		for _, p := range s.pieces {
			ids = append(ids, p.ID)
		}
		return ids
	})
	s.listen(tb)
	return s
}

func manifestName(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:])
}

// listen serves the tracker and the objects, each as a server does.
func (s *crowdServer) listen(tb testing.TB) {
	tb.Helper()
	m := http.NewServeMux()
	m.Handle("/swarm/", s.tracker.Handler())
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		b := s.objects[r.URL.Path]
		if b == nil {
			http.NotFound(w, r)
			return
		}
		if id, err := chunk.ParseID(r.URL.Path[len("/o/"):]); err == nil {
			if !s.tracker.Admit(r.Context(), asker(r, 1).Addr(), id, int64(len(b))) {
				return
			}
			defer s.tracker.Sent(asker(r, 1).Addr(), id)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		n, _ := w.Write(b) // the node is gone when this fails
		s.sent.Add(int64(n))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	serve(tb, slowListener{l, s.link}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		m.ServeHTTP(w, r)
	}))
}

// serve answers until the test is over.
func serve(tb testing.TB, l net.Listener, h http.Handler) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnContext: ConnContext}
	go func() { _ = srv.Serve(l) }() // it ends with Close
	tb.Cleanup(func() { srv.Close() })
}

// crowdShelf keeps every piece. The bytes, which are the same, are there once for all nodes.
type crowdShelf struct {
	all  []chunk.Verified
	mu   sync.Mutex
	kept Bitmap
}

func (s *crowdShelf) Put(p int, _ chunk.Verified) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Set(p)
	return true
}

func (s *crowdShelf) Piece(p int) (v chunk.Verified, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept = s.kept.Has(p); kept {
		v = s.all[p]
	}
	return v, kept
}

func (s *crowdShelf) Reach() int { return len(s.all) }

// boot is one node from its start to its last read; it goes on giving to others until ctx is done.
func (s *crowdServer) boot(ctx context.Context, tb testing.TB, i int) (*Node, error) {
	self := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
	c := client(self, 4, nil)
	help := StartPeers(ctx, c, []string{s.url}, StartAsk{Pack: s.pack, Prefix: 8})
	if err := s.start(ctx, c, help); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(self, Port).String())
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	failover, err := store.NewFailover(quiet{}, &store.HTTP{URL: s.url, Client: client(self, 8, nil)})
	if err != nil {
		return nil, err
	}
	n := NewNode(NodeOptions{Pack: s.pack, Pieces: s.pieces, Origin: store.NewRetry(failover, log), Trackers: []string{s.url}, Port: Port, Self: self, Prefix: 8,
		Loose: 1 << 20, Start: s.files, Helpers: help.Peers, Said: help.Said, Log: log})
	serve(tb, slowListener{l, &slowLink{rate: s.link.rate}}, n.Handler())
	n.Use(&crowdShelf{all: s.held, kept: NewBitmap(len(s.held))})
	go n.Run(ctx)
	return n, s.read(ctx, n)
}

// start gets the files that a boot starts with, from the first who has them.
func (s *crowdServer) start(ctx context.Context, c *http.Client, help StartHelp) error {
	name := "/m/" + manifestName(s.files.Manifest)
	for _, path := range []string{name, name + ".minisig", "/o/" + s.pack.Name()} {
		var b []byte
		var err error
		for i := 0; i <= len(help.Peers) && string(b) != string(s.objects[path]); i++ {
			url := s.url
			if i < len(help.Peers) {
				url = "http://" + help.Peers[i].String()
			}
			b, err = fetchFile(ctx, c, url+path)
		}
		if string(b) != string(s.objects[path]) {
			return fmt.Errorf("%s: %d bytes: %w", path, len(b), err)
		}
	}
	return nil
}

func fetchFile(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// read reads all, as a boot does that the network holds up.
func (s *crowdServer) read(ctx context.Context, n *Node) error {
	for i, p := range s.pieces {
		if every := len(s.pieces) / len(s.loose); i%every == 0 && i/every < len(s.loose) {
			x := s.loose[i/every]
			if v, err := n.Get(ctx, x.ID, x.Size); err != nil || v.ID() != x.ID {
				return fmt.Errorf("loose object %d: %w", i/every, cmp.Or(err, errNotIt))
			}
		}
		if v, err := n.Get(ctx, p.ID, p.Size); err != nil || v.ID() != p.ID {
			return fmt.Errorf("piece %d: %w", i, cmp.Or(err, errNotIt))
		}
	}
	return nil
}

var errNotIt = fmt.Errorf("another object came")

// quiet is told of servers and says nothing.
type quiet struct{}

func (quiet) Received(string, int)           {}
func (quiet) Failed(string, chunk.ID, error) {}

// manyFiles has this process open as many files as a crowd needs: two for each connection.
func manyFiles(tb testing.TB, n int) {
	tb.Helper()
	most := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most); err != nil && n > 40 {
		tb.Skipf("%d nodes need more open files than this user may have: %v", n, err)
	}
}

// processorTime is what this process took of the processors so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself it does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCrowd is what a storm of real nodes has its server do, and what is said for it: messages to the tracker and their bytes, with the answers and HTTP's headers.
// Where the processors are used to more than 70 % it says nothing about the network; it prints how much that is.
func BenchmarkCrowd(b *testing.B) {
	sizes := []int{40, 200, 1000}
	if n, err := strconv.Atoi(os.Getenv("PANDO_CROWD")); err == nil {
		sizes = []int{n}
	}
	for _, nodes := range sizes {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for range b.N {
				stormOfCrowd(b, nodes)
			}
		})
	}
}

func stormOfCrowd(b *testing.B, nodes int) {
	manyFiles(b, nodes)
	s := newCrowdServer(b, nodes)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	begin, before := time.Now(), processorTime()
	var all sync.WaitGroup
	booted := make([]*Node, nodes)
	errs := make(chan error, nodes)
	for i := range nodes {
		all.Go(func() {
			var err error
			if booted[i], err = s.boot(ctx, b, i+1); err != nil {
				errs <- fmt.Errorf("node %d: %w", i, err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	close(errs)
	for err := range errs {
		b.Fatal(err)
	}
	var said Control
	for _, n := range booted {
		c := n.Control()
		said.Messages, said.Bytes = said.Messages+c.Messages, said.Bytes+c.Bytes
	}
	w, each := float64(crowdPieces*crowdPiece), float64(nodes)
	b.ReportMetric(took.Seconds()/crowdTakes(nodes).Seconds(), "W/B")
	b.ReportMetric(float64(s.sent.Load())/w, "server-W")
	b.ReportMetric(float64(said.Messages)/each, "messages/node")
	b.ReportMetric(float64(said.Bytes+said.Messages*HeaderBytes)/each, "control-bytes/node")
	b.ReportMetric(float64(said.Messages)/took.Seconds(), "messages/s")
	b.ReportMetric(float64(s.asked.Load())/took.Seconds(), "requests/s")
	b.ReportMetric(100*(processorTime()-before).Seconds()/took.Seconds()/float64(runtime.NumCPU()), "%processors")
}
