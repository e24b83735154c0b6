package swarm

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Limits of a node. A piece takes from a millisecond to a second, by link, so most time-outs are counted in this
// node's usual transfer time.
const (
	window             = 16 // missing pieces to choose from; a quarter more in a large swarm
	peerFetches        = 6  // concurrent transfers from peers
	serverFetches      = 8  // and from the origin
	maxPeers           = 24 // known at a time
	maxPeersPerAddress = 4  // or one host with many ports would take all places
	fewPeers           = 8  // with fewer, the node announces itself again
	manyPeers          = 22 // with so many it is part of a large swarm
	commonHolders      = 3  // peers that have a piece: news of one more holder may wait
	// so many parts of a transfer time for each holder, to travel with other news; it halves the messages of 200 nodes
	haveDelayPart = 6
	maxStrikes    = 2                // slow or failed transfers after which a peer is avoided
	avoidTime     = 30 * time.Second // for so long
	// A busy peer is not asked again before a usual transfer time, or this.
	minBusyWait  = time.Millisecond
	busyWaitMax  = 500 * time.Millisecond // nor after this for an urgent piece
	slowFactor   = 8                      // times the usual transfer time after which a transfer is cancelled
	minSlow      = 20 * time.Millisecond  // but not earlier
	slowFirst    = 2 * time.Second        // while the usual time is not known
	learnSamples = 8                      // the first transfers have links that nobody shares yet
	// wait of an urgent piece before an undirected node asks the origin although a peer has it
	minHedge       = 75 * time.Millisecond
	hedgeMax       = 2 * time.Second        // and at most
	directedFactor = 256                    // transfer times before a directed node asks the origin
	trackerTimeout = 6 * time.Second        // a reply of the tracker that takes longer is lost
	keepAliveFirst = 10 * time.Second       // idle time before the first sign of life: the tracker soon forgets a node
	minRejoin      = 500 * time.Millisecond // between announcements while peers are few; grows
	rejoinMax      = 10 * time.Second
	maxAvoided     = 16 // avoided peers that a request names
	delayFactor    = 8  // times the announce delay that an urgent piece waits as well
	urgentAhead    = 4  // the first pieces of a request, which reads may wait for when the reply comes
	// A read waits so large a part of the announce delay for the tracker or a peer.
	demandDelayPart = 4
	// between signs of life, and between announcements to a lost tracker while no piece is missing
	keepAliveEvery = time.Minute
)

// FetcherOptions are the inputs of a Fetcher. Zero values mean the defaults.
type FetcherOptions struct {
	Self   netip.AddrPort // where this node serves; never added as a peer
	Pieces int            // of the pack
	Idle   bool           // fetch urgent pieces only

	Random *rand.Rand // for choices between equals; required
}

// Fetch is one transfer of a piece.
type Fetch struct {
	Piece int
	Peer  netip.AddrPort // zero: the origin
}

// Origin reports whether the transfer is from a server.
func (f Fetch) Origin() bool { return !f.Peer.IsValid() }

// Request asks the tracker which pieces may be fetched from the server.
type Request struct {
	Want []int // pieces that no known peer has, in order, at most Window; none: a sign of life
	// the first so many of them are urgent, or soon will be: their holders are named
	Urgent    int
	Limit     int              // no piece from here on is wanted yet; 0: all are
	Max       int              // transfers from the server that the node has room for
	Have      Bitmap           // what it has
	Avoided   []netip.AddrPort // peers that are no help to it, at most maxAvoided
	FromPeers int              // pieces that peers sent so far

	Timeout time.Duration // how long it waits for the reply
}

// Step is what to do now. Its slices are valid until the next call of Next.
type Step struct {
	Fetch      []Fetch          // start these; each ends in Done or Fail
	Cancel     []Fetch          // stop these; no Done or Fail follows
	Request    *Request         // send it; Answered or TrackerLost follows
	Join       bool             // announce the node again: peers are few
	Corrupt    []netip.AddrPort // report these to the tracker: they sent wrong bytes
	Avoided    []AvoidedPeer    // not asked for a while
	Failed     []AvoidedPeer    // a transfer from these failed or was slow for the first time, a while ago
	Probe      []netip.AddrPort // try to connect to these; PeerUnreachable follows if that fails
	Wake       time.Duration    // call Next then, if nothing happens before; 0: no need
	WakeFailed time.Duration    // the same, if only failures are to be reported
}

// AvoidedPeer is a peer that was slow, failed or could not be reached.
type AvoidedPeer struct {
	Peer        netip.AddrPort
	Slow        bool
	Unreachable bool
}

// Failure is why a transfer brought nothing.
type Failure int

// The failures.
const (
	Broken  Failure = iota // no connection, broken off, or not the protocol
	Busy                   // too many uploads there
	Missing                // the peer does not have the piece
	Corrupt                // complete, but not the piece
)

// piece is what a node knows of one piece. It is small: a simulation looks at millions of them.
type piece struct {
	holders   peerSet       // known peers that have it
	transfers int16         // running transfers of it
	failed    int16         // failed transfers from peers
	notBefore time.Duration // somebody fetches it: the tracker is not asked again before
}

// urgentPiece is a piece that a read waits for.
type urgentPiece struct {
	piece      int
	since      time.Duration
	fromOrigin bool // the origin was asked for it
}

type transfer struct {
	Fetch
	start time.Duration
}

// Fetcher decides for one node which pieces it fetches next from whom. It is not safe for concurrent use.
type Fetcher struct {
	o         FetcherOptions
	have      Bitmap
	skip      Bitmap // pieces that are fetched only when they are urgent
	missing   int    // pieces to fetch ahead
	first     int    // the first of them
	limit     int    // no piece from here on is fetched ahead now
	pieces    []piece
	transfers []transfer
	urgent    []urgentPiece // oldest first

	fromPeers, fromOrigin int
	peerTime              time.Duration // usual transfer time of a peer; 0: not known
	peerSamples           int           // transfers that it was learned from, at most learnSamples
	retryAfter            time.Duration // when the tracker may be asked for a held piece again; 0: not known
	delay                 time.Duration // announce delay; 0: as usual

	used         peerSet
	unheard      peerSet                   // first peers that have not said yet what they have
	unheardUntil time.Duration             // and how long to wait for that
	addrs        [peerSlots]netip.AddrPort // of peers, by slot
	peers        [peerSlots]knownPeer
	banned       map[netip.Addr]bool

	failing  peerSet             // peers that failed for the first time, to be reported
	reportAt time.Duration       // and when
	reported map[netip.Addr]bool // addresses that were

	avoided map[netip.AddrPort]time.Duration // until when

	cameFromPeers int           // pieces that peers sent
	demandReads   int           // local reads of demand objects
	demandSince   time.Duration // since when there are some
	tracker       bool
	everMet       bool          // a peer was known at some time
	requestedAt   time.Duration // when the last request was sent, or an announcement answered
	requestOpen   bool
	keptAlive     bool // the last request was a sign of life
	granted       []int
	joinAt        time.Duration
	forgotten     bool // the tracker does not know this node any more
	rejoining     bool // and this node announces itself again
	joinWait      time.Duration

	step   Step
	window []int // of Next, reused
}

// NewFetcher returns the decisions of a node that has no piece and knows no peer. Until SetTracker, all comes from the
// origin.
func NewFetcher(o FetcherOptions) *Fetcher {
	s := &Fetcher{
		o:        o,
		have:     NewBitmap(o.Pieces),
		skip:     NewBitmap(o.Pieces),
		missing:  o.Pieces,
		limit:    o.Pieces,
		pieces:   make([]piece, o.Pieces),
		banned:   map[netip.Addr]bool{},
		reported: map[netip.Addr]bool{},
		avoided:  map[netip.AddrPort]time.Duration{},
	}
	for p := range s.pieces {
		if o.Idle {
			s.skipPiece(p)
		}
	}
	return s
}

// SetTracker reports whether a tracker answers. When it is lost, pieces that no peer has come from the origin; peers
// stay. An announcement that only brought more peers leaves the open request open.
func (s *Fetcher) SetTracker(now time.Duration, available bool) {
	if available && s.tracker && !s.rejoining {
		return
	}
	s.tracker, s.requestOpen, s.requestedAt, s.keptAlive, s.rejoining = available, false, now, false, false
	s.joinWait = minRejoin
	s.joinAt = now + s.joinWait
	for p := range s.pieces {
		s.pieces[p].notBefore = 0
	}
}

// SetAnnounceDelay takes the delay that the tracker told, within MaxAnnounceDelay.
func (s *Fetcher) SetAnnounceDelay(delay time.Duration) { s.delay = BoundDelay(delay) }

// Have is what this node has; it changes with Done.
func (s *Fetcher) Have() Bitmap { return s.have }

// TransferTime is the usual time of a transfer from a peer; 0: not known.
func (s *Fetcher) TransferTime() time.Duration { return s.peerTime }

// HasTracker reports whether a tracker answers.
func (s *Fetcher) HasTracker() bool { return s.tracker }

// Missing returns the number of pieces that this node does not have.
func (s *Fetcher) Missing() int { return s.missing }

// Add notes a piece that came without a transfer, such as one from the node's cache.
func (s *Fetcher) Add(p int) {
	if s.have.Has(p) {
		return
	}
	s.skipPiece(p)
	s.have.Set(p)
	s.readsDone(p)
}

// Prefetch has a piece fetched ahead that was taken for cached.
func (s *Fetcher) Prefetch(p int) {
	if s.skip.Has(p) && !s.have.Has(p) {
		s.skip[p>>3] &^= 1 << (p & 7)
		s.missing++
		s.first = min(s.first, p)
	}
}

// Remove notes that a piece was dropped. It is fetched again when it is urgent.
func (s *Fetcher) Remove(p int) {
	if s.have.Has(p) {
		s.have[p>>3] &^= 1 << (p & 7)
	}
}

// GiveUp ends all attempts at a piece that is not to be had.
func (s *Fetcher) GiveUp(p int) {
	s.skipPiece(p)
	s.readsDone(p)
	s.cancelAll(p)
}

// skipPiece stops fetching a piece ahead.
func (s *Fetcher) skipPiece(p int) {
	if s.skip.Has(p) {
		return
	}
	s.skip.Set(p)
	s.missing--
	for s.first < s.o.Pieces && s.skip.Has(s.first) {
		s.first++
	}
}

// readsDone ends the urgency of a piece.
func (s *Fetcher) readsDone(p int) {
	s.urgent = slices.DeleteFunc(s.urgent, func(d urgentPiece) bool { return d.piece == p })
}

// SetLimit sets how many pieces, from the first one, there is room for. Pieces beyond are not fetched ahead.
func (s *Fetcher) SetLimit(pieces int) { s.limit = min(pieces, s.o.Pieces) }

// Urgent says that a read waits for a piece.
func (s *Fetcher) Urgent(now time.Duration, p int) {
	if !s.have.Has(p) && !s.IsUrgent(p) {
		s.pieces[p].failed = 0
		s.urgent = append(s.urgent, urgentPiece{piece: p, since: now})
	}
}

// Done takes a piece that came and was verified. Other transfers of it are cancelled.
func (s *Fetcher) Done(now time.Duration, f Fetch) {
	start, ok := s.end(f)
	if !ok {
		return
	}
	if k := s.find(f.Peer); k != nil {
		k.strikes, k.refusals = 0, 0
	}
	if !f.Origin() {
		s.learnPeerTime(now - start)
		s.cameFromPeers++
	}
	s.Add(f.Piece)
	s.cancelAll(f.Piece)
}

// cancelAll stops all transfers of a piece.
func (s *Fetcher) cancelAll(p int) {
	for i := len(s.transfers) - 1; i >= 0; i-- {
		if s.transfers[i].Piece == p {
			s.cancel(s.transfers[i].Fetch)
		}
	}
}

// learnPeerTime takes the time of a transfer from a peer.
func (s *Fetcher) learnPeerTime(d time.Duration) {
	if s.peerSamples < learnSamples {
		s.peerSamples++
		s.peerTime += (d - s.peerTime) / time.Duration(s.peerSamples)
		return
	}
	s.peerTime += (d - s.peerTime) / learnSamples
}

// Fail takes a transfer that brought nothing.
func (s *Fetcher) Fail(now time.Duration, f Fetch, why Failure) {
	if _, ok := s.end(f); !ok {
		return
	}
	if f.Origin() {
		s.pieces[f.Piece].notBefore = 0
		return
	}
	k := s.find(f.Peer)
	if why == Corrupt {
		s.BanCorrupt(f.Peer)
	}
	if why != Busy {
		s.pieces[f.Piece].failed++
	}
	switch {
	case k == nil:
	case why == Busy:
		s.rest(now, k)
	case why == Missing:
		s.pieces[f.Piece].holders &^= k.bit
		s.strike(now, k, false)
	case why == Broken:
		s.noteFailure(now, k, false)
		s.strike(now, k, false)
	}
}

// rest asks nothing of a peer until one of its uploads may have ended: a usual transfer time, and after three refusals
// one and a half. For an urgent piece it is asked again sooner.
func (s *Fetcher) rest(now time.Duration, k *knownPeer) {
	pause := max(minBusyWait, s.peerTime*time.Duration(4+min(k.refusals, 2))/4)
	k.urgentAfter, k.askAfter = now+min(pause, busyWaitMax), now+pause
	k.refusals++
}

// begin starts a transfer.
func (s *Fetcher) begin(now time.Duration, f Fetch) {
	s.transfers = append(s.transfers, transfer{f, now})
	s.pieces[f.Piece].transfers++
	if f.Origin() {
		s.fromOrigin++
	} else {
		s.fromPeers++
		s.find(f.Peer).transfers++
	}
	s.step.Fetch = append(s.step.Fetch, f)
}

// end ends a transfer; ok is false when there is none.
func (s *Fetcher) end(f Fetch) (start time.Duration, ok bool) {
	i := slices.IndexFunc(s.transfers, func(x transfer) bool { return x.Fetch == f })
	if i < 0 {
		return 0, false
	}
	start = s.transfers[i].start
	s.transfers[i] = s.transfers[len(s.transfers)-1]
	s.transfers = s.transfers[:len(s.transfers)-1]
	s.pieces[f.Piece].transfers--
	if f.Origin() {
		s.fromOrigin--
	} else {
		s.fromPeers--
		if k := s.find(f.Peer); k != nil {
			k.transfers--
		}
	}
	return start, true
}

func (s *Fetcher) cancel(f Fetch) {
	if _, ok := s.end(f); ok {
		s.step.Cancel = append(s.step.Cancel, f)
	}
}
