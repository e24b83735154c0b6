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
	"pando/internal/sockopt"
	"pando/internal/store"
	"pando/internal/swarm"
)

// PieceStore holds the pieces of a node's pack, in stored form. It may drop a piece at any time. Its methods do not
// block.
type PieceStore interface {
	// Piece returns a piece that is held. lost is the error of a piece that no source has.
	Piece(piece int) (v chunk.Verified, held bool, lost error)
	Put(piece int, v chunk.Verified, readWaits bool) (held bool)
	Lose(piece int, err error)
	// Changes returns what changed since the last call: the pieces that came or went, and those to fetch ahead after
	// all. reach is the number of pieces, from the first on, that there is room for. Call it after Node.Moved.
	Changes() (changed, left []int, reach int)
}

// Piece is an object of a pack.
type Piece struct {
	ID   chunk.ID
	Size int64 // stored bytes
}

// NodeOptions are the settings of a Node.
type NodeOptions struct {
	Pack        chunk.ID             // names the swarm: the map of the pack, or the version if it has no pack
	Pieces      []Piece              // in the pack's order; none: only demand objects are shared
	Store       PieceStore           // holds Pieces
	Proofs      chunk.FastDigests    // digests of Pieces
	Origin      chunk.Source         // waits for an object that it cannot get yet, unless the request is Optional
	Trackers    []string             // base URLs of servers, preferred first; none: everything comes from the origin
	Port        uint16               // where Handler is served
	Self        netip.Addr           // source address; zero: any
	Prefix      int                  // length of the subnet's prefix; 0: not known
	Location    string               // rack or switch; "": not known
	LocalOnly   bool                 // share within the location or subnet only
	Idle        bool                 // fetch urgent pieces only
	DemandBytes int                  // bytes of demand objects kept for peers
	Bootstrap   swarm.BootstrapFiles // for nodes that boot later
	// BootstrapPeers sent the bootstrap files, and have the objects that are read next. They are asked until the
	// tracker names others.
	BootstrapPeers []netip.AddrPort

	Control swarm.Control // traffic with trackers before this node existed

	// Slow holds the announce delay; other users of the network share it. nil: the delay is unknown at first, and not
	// shared.
	Slow *store.TimeoutFloor

	// Cached, when set, returns a source that asks the node's cache before the given one.
	Cached func(chunk.Source) chunk.Source

	Observer Observer  // nil: none
	clock    time.Time // origin of the node's moments; zero: now
	Log      *slog.Logger
}

// announceTime is how long a node waits for the tracker's first reply before it begins without a tracker.
const announceTime = 300 * time.Millisecond

// Node is one node of a swarm. It fetches the pieces of its pack, serves them to peers, and is the source of objects
// for a block device. The PieceStore holds the pieces; the Node itself holds the demand objects.
type Node struct {
	o          NodeOptions
	start      time.Time
	objects    *http.Client
	watches    *http.Client
	tracker    trackerClient
	index      map[chunk.ID]int
	events     chan func(now time.Duration)
	kicked     chan struct{} // the piece store changed
	uploadTime time.Duration // see maxUploadTime

	calls, control atomic.Int64
	demandReads    atomic.Int32 // reads that wait for demand objects
	sharing        atomic.Bool  // see Fetcher.Sharing
	transferTime   atomic.Int64 // see Fetcher.TransferTime

	mu        sync.Mutex
	have      swarm.Bitmap  // pieces that watchers are told
	changed   chan struct{} // closed and replaced when have changes
	haveAt    time.Duration // when peers are told of new pieces; 0: there is no news
	slots     swarm.UploadSlots
	watched   int
	closed    bool // the node has left and serves no peer
	banned    map[netip.Addr]bool
	scheduler sockopt.Scheduler
	peerHave  map[netip.AddrPort]swarm.Bitmap // pieces of the watched peers
	demand    demandCache
	reads     *swarm.DemandReads
	// Demand objects that are being fetched. The channel is closed when the read ends.
	arriving map[chunk.ID]chan struct{}

	// Used by the goroutine of Run only.
	swarm     *swarm.Fetcher
	transfers map[swarm.Fetch]context.CancelFunc
	waits     map[int][]chan result // reads by piece
	ctx       context.Context
	work      sync.WaitGroup
	joinWait  time.Duration // wait for the tracker's first reply: announceTime
	began     bool          // the tracker replied, or the wait is over
	quit      bool
	status    trackerStatus
	requests  int // piece requests so far
}

// result is how a fetch ended.
type result struct {
	v   chunk.Verified
	err error
}

// NewNode returns a node, which does nothing until Run.
func NewNode(o NodeOptions) *Node {
	if o.Slow == nil {
		o.Slow = new(store.TimeoutFloor)
	}
	n := &Node{
		o:       o,
		start:   time.Now(),
		objects: client(o.Self, 2, o.Slow),
		watches: client(o.Self, 1, o.Slow),
		index:   map[chunk.ID]int{},
		events:  make(chan func(time.Duration), 64),
		kicked:  make(chan struct{}, 1),
		have:    swarm.NewBitmap(len(o.Pieces)),
		changed: make(
			chan struct{},
		),
		banned:     map[netip.Addr]bool{},
		peerHave:   map[netip.AddrPort]swarm.Bitmap{},
		uploadTime: maxUploadTime,
		joinWait:   o.Slow.AtLeast(announceTime),
		transfers:  map[swarm.Fetch]context.CancelFunc{},
		waits:      map[int][]chan result{},
		arriving:   map[chunk.ID]chan struct{}{},
	}
	if !o.clock.IsZero() {
		n.start = o.clock
	}
	if o.Observer == nil {
		n.o.Observer = &nobody{}
	}
	n.demand.most = o.DemandBytes
	n.reads = n.newDemandReads(o.Slow)
	n.tracker = trackerClient{"", client(o.Self, 4, o.Slow), &n.control, &n.calls}
	for i, p := range o.Pieces {
		n.index[p.ID] = i
	}
	n.swarm = swarm.NewFetcher(
		swarm.FetcherOptions{
			Pieces: len(o.Pieces),
			Idle:   o.Idle,
			Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		},
	)
	n.swarm.SetLimit(0)
	n.swarm.SetAnnounceDelay(o.Slow.AtLeast(0))
	n.Moved()
	return n
}

// client returns an HTTP client for peers and trackers. It follows no redirect, so that a peer cannot redirect this
// node to another host.
func client(self netip.Addr, conns int, slow *store.TimeoutFloor) *http.Client {
	c := store.NewClient(conns, slow)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if t, ok := c.Transport.(*http.Transport); ok && self.IsValid() {
		d := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(self, 0))}
		t.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return store.Dial(ctx, d, addr, slow)
		}
	}
	return c
}

// probe checks that a peer's kernel accepts a connection in time.
func (n *Node) probe(a netip.AddrPort, most time.Duration) {
	n.work.Go(func() {
		d := net.Dialer{Timeout: most}
		if n.o.Self.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.o.Self, 0))
		}
		c, err := d.DialContext(n.ctx, "tcp", a.String())
		if err == nil {
			_ = c.Close() // it only tested the connection
			return
		}
		n.o.Log.Debug("a peer cannot be reached any more", "peer", a, "err", err)
		n.post(n.ctx, func(now time.Duration) { n.swarm.PeerUnreachable(now, a) })
	})
}

// Control returns the traffic between this node and trackers so far.
func (n *Node) Control() swarm.Control {
	return swarm.Control{Messages: n.o.Control.Messages + n.calls.Load(), Bytes: n.o.Control.Bytes + n.control.Load()}
}

// TransferTime is the usual time of a transfer from a peer; 0: not known.
func (n *Node) TransferTime() time.Duration { return time.Duration(n.transferTime.Load()) }

// Run fetches the pack and serves peers until ctx ends.
func (n *Node) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer n.work.Wait()
	defer cancel()
	n.ctx = ctx
	wake := time.NewTimer(0)
	defer wake.Stop()
	if n.began = len(n.o.Trackers) == 0; !n.began {
		n.announce()
		wake.Reset(n.joinWait)
	}
	for {
		select {
		case <-ctx.Done():
			n.goodbye()
			return
		case e := <-n.events:
			e(n.now())
		case <-n.kicked:
			n.news()
		case <-wake.C:
			n.began = true
		}
		if n.began {
			n.act(wake)
		}
	}
}

func (n *Node) now() time.Duration { return time.Since(n.start) }

// post hands an event to the goroutine of Run.
func (n *Node) post(ctx context.Context, e func(now time.Duration)) {
	select {
	case n.events <- e:
	case <-ctx.Done():
	}
}

// act carries out what the Fetcher decides.
func (n *Node) act(wake *time.Timer) {
	now := n.now()
	n.swarm.SetDemandReads(now, int(n.demandReads.Load()))
	step := n.swarm.Next(now)
	n.sharing.Store(n.swarm.Sharing())
	n.transferTime.Store(int64(n.swarm.TransferTime()))
	for _, f := range step.Cancel {
		if stop := n.transfers[f]; stop != nil {
			delete(n.transfers, f)
			stop()
		}
	}
	for _, f := range step.Fetch {
		n.fetch(f)
	}
	if step.Request != nil {
		n.requestPieces(*step.Request)
	}
	if step.Join && len(n.o.Trackers) > 0 && !n.quit {
		n.announce()
	}
	for _, a := range step.Corrupt {
		n.report(a)
	}
	for _, a := range step.Probe {
		n.probe(a, n.swarm.ProbeTimeout())
	}
	for _, l := range step.Avoided {
		n.o.Observer.Left(l)
	}
	if len(step.Failed) > 0 {
		n.o.Observer.PeersFailed(step.Failed)
	}
	if step.Wake == 0 || step.WakeFailed > 0 && step.WakeFailed < step.Wake {
		step.Wake = step.WakeFailed
	}
	if step.Wake > 0 {
		wake.Reset(max(0, step.Wake-n.now()))
	}
}
