package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/sockopt"
	"pando/internal/swarm"
	"pando/internal/swarm/tracker"
)

// The benchmark runs hundreds of real nodes, each with its own loopback address, and a real tracker, over sockets. They
// boot a server's pack and some demand objects. Links are so slow that the processors are not the bottleneck.
const (
	benchPieces = 237
	benchPiece  = 40 << 10
	benchDemand = 3 // demand objects that a boot reads
	benchSmall  = 16 << 10
)

// benchTakes returns how long a link takes to carry a boot.
func benchTakes(nodes int) time.Duration {
	return time.Minute + time.Duration(nodes)*200*time.Millisecond
}

// benchBoot is what all nodes boot. It is the same in each process.
type benchBoot struct {
	objects map[string][]byte // by path
	pieces  []Piece
	held    []chunk.Verified // the pieces of the pack
	demand  []Piece
	pack    chunk.ID
	files   swarm.BootstrapFiles
	rate    float64 // bytes per second of each link
}

// benchServer is a server's image port: its link, the tracker, and all objects.
type benchServer struct {
	*benchBoot
	tracker *tracker.Server
	url     string
	asked   atomic.Int64 // requests for messages and objects
	sent    atomic.Int64 // bytes of objects
}

// slowLink is one direction of a link, whose bytes pass one after the other.
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

// slowListener is a host's port. Its replies pass the host's link.
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

func newBenchBoot(nodes int) (*benchBoot, error) {
	s := &benchBoot{objects: map[string][]byte{}, rate: float64(benchPieces*benchPiece) / benchTakes(nodes).Seconds()}
	random := rand.NewChaCha8([32]byte{1})
	object := func(size int) Piece {
		b := make([]byte, size)
		_, _ = random.Read(b) // never fails
		id := chunk.Sum(b)
		s.objects["/o/"+id.Name()] = b
		return Piece{id, int64(size)}
	}
	for range benchPieces {
		p := object(benchPiece)
		v, err := chunk.Check(p.ID, s.objects["/o/"+p.ID.Name()])
		if err != nil {
			return nil, err
		}
		s.pieces, s.held = append(s.pieces, p), append(s.held, v)
	}
	for range benchDemand {
		s.demand = append(s.demand, object(benchSmall))
	}
	s.pack = object(benchPieces * 128).ID
	s.files = swarm.BootstrapFiles{Manifest: []byte("a manifest"), Signature: []byte("its signature")}
	name := "/m/" + manifestName(s.files.Manifest)
	s.objects[name], s.objects[name+".minisig"] = s.files.Manifest, s.files.Signature
	var err error
	s.files.Map, err = chunk.Check(s.pack, s.objects["/o/"+s.pack.Name()])
	return s, err
}

func newBenchServer(tb testing.TB, nodes int) *benchServer {
	tb.Helper()
	boot, err := newBenchBoot(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	s := &benchServer{benchBoot: boot}
	s.tracker = tracker.New(
		swarm.TrackerOptions{Uplink: int64(s.rate), Random: chance()},
		func(chunk.ID) (ids []chunk.ID) {
			for _, p := range s.pieces {
				ids = append(ids, p.ID)
			}
			return ids
		},
		nil,
	)
	s.listen(tb)
	return s
}

func manifestName(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:])
}

// listen serves the tracker and the objects as a server does.
func (s *benchServer) listen(tb testing.TB) {
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
			if !s.tracker.Admit(r.Context(), swarm.NodeAddr(r.RemoteAddr, 1).Addr(), id, int64(len(b))) {
				return
			}
			defer s.tracker.Sent(swarm.NodeAddr(r.RemoteAddr, 1).Addr(), id)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		n, _ := w.Write(b) // fails only when the node is gone
		s.sent.Add(int64(n))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	tb.Cleanup(
		serve(slowListener{l, &slowLink{rate: s.rate}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.asked.Add(1)
			m.ServeHTTP(w, r)
		})),
	)
}

// serve answers requests until end is called.
func serve(l net.Listener, h http.Handler) (end func()) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnContext: sockopt.ConnContext}
	go func() { _ = srv.Serve(l) }() // it ends with Close
	return func() { srv.Close() }
}

// BenchmarkManyNodes measures what a storm of real nodes asks of its server: messages to the tracker, and their bytes
// with replies and HTTP headers. Above 70 % processor use, which it prints, the result says nothing about the network.
func BenchmarkManyNodes(b *testing.B) {
	sizes := []int{40, 200, 1000}
	if n, err := strconv.Atoi(os.Getenv("PANDO_CROWD")); err == nil {
		sizes = []int{n}
	}
	for _, nodes := range sizes {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for range b.N {
				benchStorm(b, nodes)
			}
		})
	}
}

func benchStorm(b *testing.B, nodes int) {
	s := newBenchServer(b, nodes)
	begin, before := time.Now(), processorTime(syscall.RUSAGE_SELF)
	var rooms []*benchProcesses
	for first := 0; first < nodes; first += benchProcess {
		rooms = append(rooms, s.room(b, nodes, first, min(nodes, first+benchProcess)))
	}
	var control swarm.Control
	for _, r := range rooms { // in any order: all nodes stay until the last one has booted
		c := r.booted(b)
		control.Messages, control.Bytes = control.Messages+c.Messages, control.Bytes+c.Bytes
	}
	took := time.Since(begin)
	for _, r := range rooms {
		r.close(b)
	}
	busy := processorTime(syscall.RUSAGE_SELF) - before + processorTime(syscall.RUSAGE_CHILDREN)
	w, each := float64(benchPieces*benchPiece), float64(nodes)
	b.ReportMetric(took.Seconds()/benchTakes(nodes).Seconds(), "W/B")
	b.ReportMetric(float64(s.sent.Load())/w, "server-W")
	b.ReportMetric(float64(control.Messages)/each, "messages/node")
	b.ReportMetric(float64(control.Bytes+control.Messages*swarm.HeaderBytes)/each, "control-bytes/node")
	b.ReportMetric(float64(control.Messages)/took.Seconds(), "messages/s")
	b.ReportMetric(float64(s.asked.Load())/took.Seconds(), "requests/s")
	b.ReportMetric(100*busy.Seconds()/took.Seconds()/float64(runtime.NumCPU()), "%processors")
}

// processorTime returns the processor time of this process, or of its children that ended.
func processorTime(who int) time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(who, &u) // cannot fail for these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
