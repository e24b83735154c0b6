package swarm

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Bounds and patience of a node. Transfers take from a millisecond to a second a piece, by link, so most patience is
// counted in the time that this node's transfers take.
const (
	maxPeers           = 24 // peers that are known at a time
	maxPeersUrgent     = 30 // with those that have what a read waits for
	maxPeersPerAddress = 4  // of them with one address: who claims many ports shall not take the places of all others
	fewPeers           = 8  // with fewer, the tracker is asked for more
	crowdPeers         = 22 // with so many it is a large crowd
	commonHolders      = 3  // peers that have a piece: word of one more waits
	// for that part of a usual transfer, for each of them; simulated, two hundred nodes hear half as often, and are
	// done 1.4 % later
	haveDelayPart = 6
	maxStrikes    = 2                // a peer that was slow or failed so often is left
	avoidTime     = 30 * time.Second // and not met again for so long
	// a peer that is busy is not asked for so long, twice as long each time, or for a usual transfer
	busyWaitMin    = time.Millisecond
	busyWaitMax    = 500 * time.Millisecond
	slowFactor     = 8                      // a transfer that takes so many times the usual one is slow
	slowMin        = 20 * time.Millisecond  // but not before this
	laggardFactor  = 4                      // a peer whose transfers usually take so many times the usual one is left
	laggardSamples = 4                      // when it is so for so many of them
	slowFirst      = 2 * time.Second        // before enough is known of this network
	learnSamples   = 8                      // transfers: the first ones have links that nobody shares yet
	hedgeMin       = 75 * time.Millisecond  // a demand waits so long for a peer before the origin is asked too
	hedgeMax       = 2 * time.Second        // and never longer than this
	directedFactor = 256                    // with a tracker it waits longer: so many transfers
	trackerTimeout = 6 * time.Second        // an answer of the tracker that takes longer does not come
	keepAliveFirst = 10 * time.Second       // with nothing to ask for so long, the tracker is told so
	rejoinMin      = 500 * time.Millisecond // between joins while peers are few; grows
	rejoinMax      = 10 * time.Second
	maxAvoided     = 16 // peers that a question names as left
	delayFactor    = 8  // and so many times as long as word may be on its way
	urgentAhead    = 4  // pieces of a question, the first ones, that reads may wait for when it is answered
	// the part of how long word may be on its way that a read waits for a loose object of a peer
	demandDelayPart = 4
	// while nothing is missing: between joins if the tracker is lost, and between signs of life
	keepAliveEvery = time.Minute
)

// Options of a Swarm. Zero values mean the defaults.
type FetcherOptions struct {
	Self   netip.AddrPort // where this node serves objects; never met as a peer
	Pieces int            // of the pack
	Idle   bool           // fetch what reads wait for, and nothing ahead

	Window        int // pieces ahead that are chosen from; default 16, and a quarter more in a large crowd
	PeerFetches   int // transfers from peers at a time; default 6
	ServerFetches int // transfers from the origin at a time; default 8

	Random *rand.Rand // for choices between equals; required
}

// Fetch is one transfer of a piece.
type Fetch struct {
	Piece int
	Peer  netip.AddrPort // zero: the origin
}

// Origin tells whether the transfer is from a server.
func (f Fetch) Origin() bool { return !f.Peer.IsValid() }

// Ask is a question to the tracker: which of these pieces may I fetch from the server?
type Request struct {
	Want []int // pieces that no peer has that this node knows, in order; at most Window; none: a sign of life
	// the first so many of them are those that reads wait for, or soon will: who has them is named
	Urgent    int
	Limit     int              // pieces from here on are not wanted yet; 0: all are
	Max       int              // transfers from the server that this node has room for
	Have      Bitmap           // what it has
	Avoided   []netip.AddrPort // peers that it left: what they have is no help to it; at most maxLeft
	FromPeers int              // pieces that peers gave it

	Timeout time.Duration // it waits so long for the answer
}

// Step is what shall be done now. Its slices are valid until the next call of Next.
type Step struct {
	Fetch      []Fetch          // start these; each ends in Done or Fail
	Cancel     []Fetch          // stop these; no Done or Fail follows
	Request    *Request         // ask the tracker; Answer or Lost follows
	Join       bool             // join again: peers are few
	Corrupt    []netip.AddrPort // tell the tracker that these sent wrong bytes
	Avoided    []AvoidedPeer    // peers that nothing is asked of for a while
	Failed     []AvoidedPeer    // peers from which a transfer failed or was slow for the first time, a while ago
	Probe      []netip.AddrPort // see whether these can still be reached; Unreached follows if not
	Wake       time.Duration    // call Next at this moment if nothing else happens before; 0: no need
	WakeFailed time.Duration    // the same, for what is told of others alone
}

// Left is a peer that was slow, or failed, or that was not to be reached.
type AvoidedPeer struct {
	Peer        netip.AddrPort
	Slow        bool
	Unreachable bool
}

// Failure is why a transfer brought nothing.
type Failure int

// The failures.
const (
	Broken  Failure = iota // it could not be reached, broke off, or does not speak the protocol
	Busy                   // it has too many uploads
	Missing                // it does not have the piece
	Corrupt                // complete, and not the piece
)

// piece is small and says itself who has it: of thousands of simulated nodes, one is looked at a hundred million times.
type piece struct {
	holders   peerSet       // known peers that have it
	transfers int16         // transfers of it that run
	failed    int16         // transfers from peers that failed
	notBefore time.Duration // somebody else fetches it: the tracker is not asked before this moment
}

// demand is a piece that a read waits for.
type urgentPiece struct {
	piece      int
	since      time.Duration
	fromOrigin bool // the origin was asked because of it
}

type transfer struct {
	Fetch
	start time.Duration
}

// Swarm is one node's view of a swarm, and decides what it fetches next from whom. It is not safe for use by several
// goroutines.
type Fetcher struct {
	o         FetcherOptions
	have      Bitmap
	skip      Bitmap // only fetched when a read waits for it
	missing   int    // pieces that are to be fetched ahead
	first     int    // the first one
	limit     int    // and none from here on now
	pieces    []piece
	transfers []transfer
	urgent    []urgentPiece // oldest first

	fromPeers, fromOrigin int
	peerTime              time.Duration // of a transfer from a peer; 0: not known
	peerSamples           int           // transfers that it was learned from, at most learnLeast
	originTime            time.Duration // of a transfer from the origin; 0: not known
	retryAfter            time.Duration // how long the tracker says that pieces take to come round; 0: not known
	delay                 time.Duration // how long it says that word may be on its way; 0: no longer than usual

	used         peerSet
	unheard      peerSet                   // of the first peers, those that have not said yet what they have
	unheardUntil time.Duration             // and until when that is waited for
	addrs        [peerSlots]netip.AddrPort // of peers, by slot
	peers        [peerSlots]knownPeer
	banned       map[netip.Addr]bool

	failing  peerSet             // peers of which a transfer failed or was slow, which is to be told
	reportAt time.Duration       // and when
	reported map[netip.Addr]bool // those of which it was told

	avoided map[netip.AddrPort]time.Duration // peers that were left, until when

	cameFromPeers int           // pieces that came from peers
	demandReads   int           // loose objects that reads wait for
	demandSince   time.Duration // since when they do
	tracker       bool
	everMet       bool          // a peer was known at some time
	requestedAt   time.Duration // when the last question was asked, or a join answered
	requestOpen   bool
	keptAlive     bool // the last question said that there is nothing to ask
	granted       []int
	joinAt        time.Duration
	forgotten     bool // the tracker does not know this node any more
	rejoining     bool // and was told of it, but has not answered yet
	joinWait      time.Duration

	step   Step
	window []int // of Next, kept to be used again
}

// NewSwarm returns the view of a node that has nothing and knows nobody. Without Tracking, everything comes from the
// origin.
func NewFetcher(o FetcherOptions) *Fetcher {
	if o.Window == 0 {
		o.Window = 16
	}
	if o.PeerFetches == 0 {
		o.PeerFetches = 6
	}
	if o.ServerFetches == 0 {
		o.ServerFetches = 8
	}
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

// Tracking says whether there is a tracker that answers. When it is lost, pieces that no peer has come from the origin
// at once; peers stay. A join that only brought more peers changes nothing else: the question that is open stays open.
func (s *Fetcher) SetTracker(now time.Duration, there bool) {
	if there && s.tracker && !s.rejoining {
		return
	}
	s.tracker, s.requestOpen, s.requestedAt, s.keptAlive, s.rejoining = there, false, now, false, false
	s.joinWait = rejoinMin
	s.joinAt = now + s.joinWait
	for p := range s.pieces {
		s.pieces[p].notBefore = 0
	}
}

// Bear takes how long word may be on its way. A tracker that says more than can be is not believed.
func (s *Fetcher) SetAnnounceDelay(late time.Duration) { s.delay = BoundDelay(late) }

// Have is what this node has; it changes with Done.
func (s *Fetcher) Have() Bitmap { return s.have }

// Usual is how long a transfer from a peer usually takes; 0: not known.
func (s *Fetcher) TransferTime() time.Duration { return s.peerTime }

// Directed tells whether there is a tracker that answers.
func (s *Fetcher) HasTracker() bool { return s.tracker }

// Missing is how many pieces this node does not have.
func (s *Fetcher) Missing() int { return s.missing }

// Hold notes a piece that is here without a transfer of the swarm, such as one that a cache had.
func (s *Fetcher) Add(p int) {
	if s.have.Has(p) {
		return
	}
	s.skipPiece(p)
	s.have.Set(p)
	s.readsDone(p)
}

// Ahead has a piece fetched ahead after all, which was believed to be had without a transfer.
func (s *Fetcher) Prefetch(p int) {
	if s.skip.Has(p) && !s.have.Has(p) {
		s.skip[p>>3] &^= 1 << (p & 7)
		s.missing++
		s.first = min(s.first, p)
	}
}

// Drop notes that a piece that was here was let go of. It is fetched again when a read waits for it.
func (s *Fetcher) Remove(p int) {
	if s.have.Has(p) {
		s.have[p>>3] &^= 1 << (p & 7)
	}
}

// Lose gives a piece up that is not to be had.
func (s *Fetcher) GiveUp(p int) {
	s.skipPiece(p)
	s.readsDone(p)
	s.cancelAll(p)
}

// pass stops fetching a piece ahead.
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

// answered ends the demand for a piece.
func (s *Fetcher) readsDone(p int) {
	s.urgent = slices.DeleteFunc(s.urgent, func(d urgentPiece) bool { return d.piece == p })
}

// Reach says how many pieces, from the first on, there is room for; none of the others is fetched ahead.
func (s *Fetcher) SetLimit(pieces int) { s.limit = min(pieces, s.o.Pieces) }

// Demand says that a read waits for a piece.
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
		s.trackSpeed(now, k, now-start)
	}
	if f.Origin() {
		s.strikeOvertaken(now, f.Piece, now-start)
		s.originTime = smooth(s.originTime, now-start)
	} else {
		s.learnPeerTime(now - start)
		s.cameFromPeers++
	}
	s.Add(f.Piece)
	s.cancelAll(f.Piece)
}

// outrun strikes peers that the origin was much quicker than, though it was asked after them: without that, reads that
// wait would have the origin send each piece that a dead peer promised, and it would never be left.
func (s *Fetcher) strikeOvertaken(now time.Duration, p int, took time.Duration) {
	limit := max(hedgeMin, slowFactor*max(s.peerTime, took))
	for i := len(s.transfers) - 1; i >= 0; i-- {
		f := s.transfers[i]
		if f.Piece != p || f.Origin() || now < f.start+limit {
			continue
		}
		s.cancel(f.Fetch)
		if k := s.find(f.Peer); k != nil {
			s.noteFailure(now, k, true)
			s.strike(now, k, true)
		}
	}
}

// cancelAll stops all transfers of a piece.
func (s *Fetcher) cancelAll(p int) {
	for i := len(s.transfers) - 1; i >= 0; i-- {
		if s.transfers[i].Piece == p {
			s.cancel(s.transfers[i].Fetch)
		}
	}
}

// learn takes the time of a transfer from a peer.
func (s *Fetcher) learnPeerTime(d time.Duration) {
	if s.peerSamples < learnSamples {
		s.peerSamples++
		s.peerTime += (d - s.peerTime) / time.Duration(s.peerSamples)
		return
	}
	s.peerTime = smooth(s.peerTime, d)
}

func smooth(usual, d time.Duration) time.Duration {
	if usual == 0 {
		return d
	}
	return usual + (d-usual)/8
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
		s.backOff(now, k)
	case why == Missing:
		s.pieces[f.Piece].holders &^= k.bit
		s.strike(now, k, false)
	case why == Broken:
		s.noteFailure(now, k, false)
		s.strike(now, k, false)
	}
}

// refused leaves a peer in peace that was busy, the longer the more often in a row it was: for what a usual
// transfer takes, or where that is long, half of it at first, and once and a half in the end.
func (s *Fetcher) backOff(now time.Duration, k *knownPeer) {
	quarters := func(n int) time.Duration { return s.peerTime * time.Duration(n) / 4 }
	pause := max(busyWaitMin<<min(k.refusals, 8), quarters(4+min(k.refusals, 2)))
	k.urgentAfter = now + min(pause, busyWaitMax)
	k.askAfter = now + min(pause, max(busyWaitMax, quarters(2+min(k.refusals, 4))))
	k.refusals++
}

// take starts a transfer.
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

// land ends a transfer; ok is false when there is none such.
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
