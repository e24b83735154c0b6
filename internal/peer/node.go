package peer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
)

// Origin is where every object can be had. Get takes as long as it needs; its only error is that ctx is done.
type Origin interface {
	Get(ctx context.Context, id chunk.ID, size int64) (chunk.Verified, error)
}

// Piece is an object of a pack.
type Piece struct {
	ID   chunk.ID
	Size int64 // stored bytes
}

// NodeOptions are the settings of a Node.
type NodeOptions struct {
	Pack    chunk.ID // names the swarm
	Pieces  []Piece  // in the pack's order
	Origin  Origin
	Tracker string     // base URL of a server's data path; "": none, everything comes from the origin
	Port    uint16     // at which Handler is served; 0: this node serves nothing
	Self    netip.Addr // address to speak from; zero: any
	Prefix  int        // length of the subnet's prefix; 0: not known
	Place   string     // rack or switch; "": not known
	Near    bool       // peers of the same place or subnet only

	Got      func(piece int, v chunk.Verified)      // a piece came; called in turn, must not block
	Received func(source string, bytes int)         // counts what came from "peer" and "origin"; may be nil
	Accused  func(peer netip.AddrPort, id chunk.ID) // a peer sent wrong bytes; may be nil
	Log      *slog.Logger
}

// dialTime is how long a connection to a peer may take to come about.
const dialTime = 3 * time.Second

// joinTime is how long a node waits for its first answer of the tracker before it begins without.
const joinTime = 300 * time.Millisecond

// Node is one node of a swarm: it fetches the pieces of its pack, gives them to its peers, and is the source of objects
// for a block device. It keeps the pieces in memory as they are stored.
type Node struct {
	o       NodeOptions
	start   time.Time
	objects *http.Client
	watches *http.Client
	tracker trackerClient
	index   map[chunk.ID]int
	events  chan func(now time.Duration)

	calls, control atomic.Int64

	mu      sync.Mutex
	pieces  []chunk.Verified
	there   []chan struct{} // closed when the piece is there
	order   []int           // pieces as they came
	changed chan struct{}   // closed and replaced when one came
	uploads Uploads
	watched int
	banned  map[netip.Addr]bool
	loose   looseObjects

	// Of the goroutine that runs.
	swarm    *Swarm
	flights  map[Fetch]context.CancelFunc
	ctx      context.Context
	work     sync.WaitGroup
	patience time.Duration // until the tracker is heard of: joinTime
	began    bool          // the tracker was heard of, or waited for long enough
}

// NewNode returns a node; Run makes it live.
func NewNode(o NodeOptions) *Node {
	n := &Node{o: o, start: time.Now(), objects: client(o.Self, 2), watches: client(o.Self, 1), index: map[chunk.ID]int{},
		events: make(chan func(time.Duration), 64), pieces: make([]chunk.Verified, len(o.Pieces)), changed: make(chan struct{}),
		banned: map[netip.Addr]bool{}, patience: joinTime, flights: map[Fetch]context.CancelFunc{}}
	n.tracker = trackerClient{o.Tracker, client(o.Self, 4), &n.control, &n.calls}
	for i, p := range o.Pieces {
		n.index[p.ID] = i
		n.there = append(n.there, make(chan struct{}))
	}
	n.swarm = NewSwarm(Options{Self: netip.AddrPortFrom(o.Self, o.Port), Pieces: len(o.Pieces),
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))})
	return n
}

// client is for peers and trackers. It follows no redirect: a peer has no say in what this node asks of others.
func client(self netip.Addr, conns int) *http.Client {
	c := store.NewClient(conns)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if t, ok := c.Transport.(*http.Transport); ok && self.IsValid() {
		d := net.Dialer{Timeout: dialTime, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(self, 0))}
		t.DialContext = d.DialContext
	}
	return c
}

// Control is how many messages went to the tracker, and their bytes with the answers, without HTTP's headers.
func (n *Node) Control() (messages, bytes int64) { return n.calls.Load(), n.control.Load() }

// Run fetches the pack and goes on serving peers until ctx ends.
func (n *Node) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer n.work.Wait()
	defer cancel()
	n.ctx = ctx
	wake := time.NewTimer(0)
	defer wake.Stop()
	if n.began = n.o.Tracker == ""; !n.began {
		n.join()
		wake.Reset(n.patience)
	}
	for {
		select {
		case <-ctx.Done():
			n.goodbye()
			return
		case e := <-n.events:
			e(n.now())
		case <-wake.C:
			n.began = true
		}
		if n.began {
			n.act(wake)
		}
	}
}

func (n *Node) now() time.Duration { return time.Since(n.start) }

// post hands an event to the goroutine that runs.
func (n *Node) post(ctx context.Context, e func(now time.Duration)) {
	select {
	case n.events <- e:
	case <-ctx.Done():
	}
}

// act does what the swarm decides.
func (n *Node) act(wake *time.Timer) {
	step := n.swarm.Next(n.now())
	for _, f := range step.Cancel {
		if stop := n.flights[f]; stop != nil {
			delete(n.flights, f)
			stop()
		}
	}
	for _, f := range step.Fetch {
		n.fetch(f)
	}
	if step.Ask != nil {
		n.ask(*step.Ask)
	}
	if step.Join && n.o.Tracker != "" {
		n.join()
	}
	for _, a := range step.Report {
		n.report(a)
	}
	if step.Wake > 0 {
		wake.Reset(max(0, step.Wake-n.now()))
	}
}
