package swarm

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Limits of a node. A piece takes from a millisecond to a second, depending on the link. So most timeouts are multiples
// of this node's usual transfer time.
const (
	window             = 16 // missing pieces to choose from; a quarter more in a large swarm
	peerFetches        = 6  // concurrent transfers from peers
	serverFetches      = 8  // concurrent transfers from the origin
	maxPeers           = 24 // peers known at a time
	maxPeersPerAddress = 4  // peers at one address, so that one host with many ports does not fill the list
	fewPeers           = 8  // with fewer peers, the node announces itself again
	manyPeers          = 22 // with so many peers, the swarm counts as large
	commonHolders      = 3  // with so many known holders, news of another holder may wait
	// News of a common piece waits 1/haveDelayPart of a transfer time per holder, to be sent with other news.
	haveDelayPart = 6
	maxStrikes    = 2                // slow or failed transfers after which a peer is avoided
	avoidTime     = 30 * time.Second // time for which a peer is avoided
	// A busy peer is asked again after a usual transfer time, but not before this.
	minBusyWait  = time.Millisecond
	busyWaitMax  = 500 * time.Millisecond // longest such wait for an urgent piece
	slowFactor   = 8                      // times the usual transfer time after which a transfer is cancelled
	minSlow      = 20 * time.Millisecond  // shortest time after which a transfer is cancelled
	slowFirst    = 2 * time.Second        // the same while the usual time is unknown
	learnSamples = 8                      // transfers to measure first: the earliest ones use links that are still idle
	// A node without a tracker waits so long for a peer's urgent piece before it asks the origin as well.
	minHedge       = 75 * time.Millisecond
	hedgeMax       = 2 * time.Second        // longest such wait
	directedFactor = 256                    // the same with a tracker, in transfer times
	trackerTimeout = 6 * time.Second        // after this time the tracker's reply counts as lost
	keepAliveFirst = 10 * time.Second       // idle time before the first keep-alive; below TrackerOptions.Forget
	minRejoin      = 500 * time.Millisecond // first pause between announcements while peers are few; it doubles
	rejoinMax      = 10 * time.Second
	maxAvoided     = 16 // avoided peers that a request names
	delayFactor    = 8  // an urgent piece waits at least so many announce delays for the origin
	urgentAhead    = 4  // so many first pieces of a request count as urgent: reads may wait for them soon
	// A read waits 1/demandDelayPart of the announce delay for the tracker or a peer.
	demandDelayPart = 4
	// Pause between keep-alives, and between announcements to a lost tracker while no piece is missing.
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
	Want []int // pieces that no known peer has, in order, at most window; none: a keep-alive
	// The first Urgent pieces of Want are urgent now or soon. The reply names their holders.
	Urgent    int
	Limit     int              // pieces from this index on are not wanted yet; 0: all are wanted
	Max       int              // transfers from the server that the node has room for
	Have      Bitmap           // pieces that the node has
	Avoided   []netip.AddrPort // peers that the node avoids, at most maxAvoided
	FromPeers int              // pieces that peers sent so far

	Timeout time.Duration // how long the node waits for the reply
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
	Wake       time.Duration    // call Next at this moment, if there was no input before; 0: no need
	WakeFailed time.Duration    // the same, for the report of failures alone
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
	Busy                   // the peer has no upload slot
	Missing                // the peer does not have the piece
	Corrupt                // a complete object, but not the piece
)

// piece is what a node knows of one piece. It is small: a simulation looks at millions of them.
type piece struct {
	holders   peerSet       // known peers that have it
	transfers int16         // running transfers of it
	failed    int16         // failed transfers from peers
	notBefore time.Duration // another node is fetching it: the tracker is not asked for it before
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

// Fetcher decides for one node which pieces to fetch next, and from which peer or server. It is not safe for concurrent
// use.
type Fetcher struct {
	o         FetcherOptions
	have      Bitmap
	skip      Bitmap // pieces that are fetched only when they are urgent
	missing   int    // pieces to fetch ahead
	first     int    // the first missing piece
	limit     int    // pieces from this index on are not fetched ahead now
	pieces    []piece
	transfers []transfer
	urgent    []urgentPiece // oldest first

	fromPeers, fromOrigin int
	peerTime              time.Duration // usual transfer time of a peer; 0: not known
	peerSamples           int           // transfers that it was learned from, at most learnSamples
	retryAfter            time.Duration // pause before the tracker is asked again for a held piece; 0: not known
	delay                 time.Duration // announce delay; 0: as usual

	used        peerSet
	silent      peerSet                   // first peers that have not told their pieces yet
	silentUntil time.Duration             // end of the wait for their pieces
	addrs       [peerSlots]netip.AddrPort // of peers, by slot
	peers       [peerSlots]knownPeer
	banned      map[netip.Addr]bool

	failing  peerSet             // peers that failed for the first time, to be reported
	reportAt time.Duration       // when the failing peers are reported
	reported map[netip.Addr]bool // addresses whose failure was reported

	avoided map[netip.AddrPort]time.Duration // end of the avoidance, by peer

	cameFromPeers int           // pieces that peers sent
	demandReads   int           // local reads of demand objects
	demandSince   time.Duration // start of the present demand reads
	tracker       bool
	everMet       bool          // a peer has been known
	requestedAt   time.Duration // when the last request was sent, or an announcement answered
	requestOpen   bool
	keptAlive     bool // the last request was a keep-alive
	granted       []int
	joinAt        time.Duration
	forgotten     bool // the tracker does not know this node any more
	rejoining     bool // this node announces itself again, because the tracker forgot it
	joinWait      time.Duration

	step   Step
	window []int // scratch space of Next
}

// NewFetcher returns the decisions of a node that has no piece and knows no peer. Until SetTracker is called, every
// piece comes from the origin.
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

// SetTracker tells the fetcher whether a tracker answers. Without a tracker, pieces that no peer has come from the
// origin; the known peers stay. An announcement that only brought more peers leaves the open request open.
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

// Add notes a piece that arrived without a transfer, such as one from the node's cache.
func (s *Fetcher) Add(p int) {
	if s.have.Has(p) {
		return
	}
	s.skipPiece(p)
	s.have.Set(p)
	s.readsDone(p)
}

// Prefetch fetches a piece ahead that was wrongly taken for cached.
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

// GiveUp ends all attempts at a piece that no source has.
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

// SetLimit sets how many pieces, counted from the first one, the piece store has room for. Pieces beyond are not
// fetched ahead.
func (s *Fetcher) SetLimit(pieces int) { s.limit = min(pieces, s.o.Pieces) }

// Urgent notes that a read waits for a piece.
func (s *Fetcher) Urgent(now time.Duration, p int) {
	if !s.have.Has(p) && !s.IsUrgent(p) {
		s.pieces[p].failed = 0
		s.urgent = append(s.urgent, urgentPiece{piece: p, since: now})
	}
}

// Done takes a piece that arrived and was verified. Other transfers of the piece are cancelled.
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

// learnPeerTime updates the usual transfer time with the duration of one transfer from a peer.
func (s *Fetcher) learnPeerTime(d time.Duration) {
	if s.peerSamples < learnSamples {
		s.peerSamples++
		s.peerTime += (d - s.peerTime) / time.Duration(s.peerSamples)
		return
	}
	s.peerTime += (d - s.peerTime) / learnSamples
}

// Fail takes a transfer that brought no piece.
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

// rest delays the next request to a busy peer by one usual transfer time, and by one and a half after three refusals.
// An urgent piece waits at most busyWaitMax.
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

// end ends a transfer; ok is false when no such transfer runs.
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
