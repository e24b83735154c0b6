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
	maxPeers    = 24 // peers that are known at a time
	mostPeers   = 30 // with those that have what a read waits for
	onePeers    = 4  // of them with one address: who claims many ports shall not take the places of all others
	fewPeers    = 8  // with fewer, the tracker is asked for more
	manyPeers   = 22 // with so many it is a large crowd
	commonLeast = 3  // peers that have a piece: word of one more waits
	// for that part of a usual transfer, for each of them; simulated, two hundred nodes hear half as often, and are
	// done 1.4 % later
	wordPart   = 6
	strikesOut = 2                // a peer that was slow or failed so often is left
	leftFor    = 30 * time.Second // and not met again for so long
	// a peer that is busy is not asked for so long, twice as long each time, or for a usual transfer
	restLeast  = time.Millisecond
	restMost   = 500 * time.Millisecond
	slowFactor = 8                      // a transfer that takes so many times the usual one is slow
	slowLeast  = 20 * time.Millisecond  // but not before this
	lagFactor  = 4                      // a peer whose transfers usually take so many times the usual one is left
	lagLeast   = 4                      // when it is so for so many of them
	slowFirst  = 2 * time.Second        // before enough is known of this network
	learnLeast = 8                      // transfers: the first ones have links that nobody shares yet
	hedgeLeast = 75 * time.Millisecond  // a demand waits so long for a peer before the origin is asked too
	hedgeMost  = 2 * time.Second        // and never longer than this
	calmFactor = 256                    // with a tracker it waits longer: so many transfers
	askLost    = 6 * time.Second        // an answer of the tracker that takes longer does not come
	askPause   = 10 * time.Second       // with nothing to ask for so long, the tracker is told so
	joinAgain  = 500 * time.Millisecond // between joins while peers are few; grows
	joinMost   = 10 * time.Second
	maxLeft    = 16 // peers that a question names as left
	lateCalm   = 8  // and so many times as long as word may be on its way
	readSoon   = 4  // pieces of a question, the first ones, that reads may wait for when it is answered
	// the part of how long word may be on its way that a read waits for a loose object of a peer
	looseLate = 4
	// while nothing is missing: between joins if the tracker is lost, and between signs of life
	joinSeldom = time.Minute
)

// Options of a Swarm. Zero values mean the defaults.
type Options struct {
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
type Ask struct {
	Want []int // pieces that no peer has that this node knows, in order; at most Window; none: a sign of life
	// the first so many of them are those that reads wait for, or soon will: who has them is named
	Soon int
	Upto int              // pieces from here on are not wanted yet; 0: all are
	Max  int              // transfers from the server that this node has room for
	Have Bitmap           // what it has
	Left []netip.AddrPort // peers that it left: what they have is no help to it; at most maxLeft
	Fed  int              // pieces that peers gave it

	Patience time.Duration // it waits so long for the answer
}

// Step is what shall be done now. Its slices are valid until the next call of Next.
type Step struct {
	Fetch  []Fetch          // start these; each ends in Done or Fail
	Cancel []Fetch          // stop these; no Done or Fail follows
	Ask    *Ask             // ask the tracker; Answer or Lost follows
	Join   bool             // join again: peers are few
	Report []netip.AddrPort // tell the tracker that these sent wrong bytes
	Left   []Left           // peers that nothing is asked of for a while
	Failed []Left           // peers from which a transfer failed or was slow for the first time, a while ago
	Probe  []netip.AddrPort // see whether these can still be reached; Unreached follows if not
	Wake   time.Duration    // call Next at this moment if nothing else happens before; 0: no need
	Tell   time.Duration    // the same, for what is told of others alone
}

// Left is a peer that was slow, or failed, or that was not to be reached.
type Left struct {
	Peer      netip.AddrPort
	Slow      bool
	Unreached bool
}

// Failure is why a transfer brought nothing.
type Failure int

// The failures.
const (
	Broken  Failure = iota // it could not be reached, broke off, or does not speak the protocol
	Busy                   // it has too many uploads
	Missing                // it does not have the piece
	Wrong                  // complete, and not the piece
)

// piece is small and says itself who has it: of thousands of simulated nodes, one is looked at a hundred million times.
type piece struct {
	holders slots         // known peers that have it
	flights int16         // transfers of it that run
	failed  int16         // transfers from peers that failed
	coming  time.Duration // somebody else fetches it: the tracker is not asked before this moment
}

// demand is a piece that a read waits for.
type demand struct {
	piece  int
	since  time.Duration
	hedged bool // the origin was asked because of it
}

type flight struct {
	Fetch
	start time.Duration
}

// Swarm is one node's view of a swarm, and decides what it fetches next from whom. It is not safe for use by several
// goroutines.
type Swarm struct {
	o       Options
	have    Bitmap
	idle    Bitmap // only fetched when a read waits for it
	missing int    // pieces that are to be fetched ahead
	first   int    // the first one
	reach   int    // and none from here on now
	pieces  []piece
	flights []flight
	demands []demand // oldest first

	peerFlights, originFlights int
	typical                    time.Duration // of a transfer from a peer; 0: not known
	learned                    int           // transfers that it was learned from, at most learnLeast
	direct                     time.Duration // of a transfer from the origin; 0: not known
	coming                     time.Duration // how long the tracker says that pieces take to come round; 0: not known
	late                       time.Duration // how long it says that word may be on its way; 0: no longer than usual

	used   slots
	silent slots                  // of the first peers, those that have not said yet what they have
	hear   time.Duration          // and until when that is waited for
	addrs  [places]netip.AddrPort // of peers, by slot
	peers  [places]known
	banned map[netip.Addr]bool

	doubted slots               // peers of which a transfer failed or was slow, which is to be told
	tellAt  time.Duration       // and when
	exposed map[netip.Addr]bool // those of which it was told

	left map[netip.AddrPort]time.Duration // peers that were left, until when

	fed       int           // pieces that came from peers
	loose     int           // loose objects that reads wait for
	looseAt   time.Duration // since when they do
	tracker   bool
	met       bool          // a peer was known at some time
	asked     time.Duration // when the last question was asked, or a join answered
	asking    bool
	told      bool // the last question said that there is nothing to ask
	granted   []int
	joinAt    time.Duration
	forgotten bool // the tracker does not know this node any more
	rejoin    bool // and was told of it, but has not answered yet
	joinWait  time.Duration

	step   Step
	window []int // of Next, kept to be used again
}

// NewSwarm returns the view of a node that has nothing and knows nobody. Without Tracking, everything comes from the
// origin.
func NewSwarm(o Options) *Swarm {
	if o.Window == 0 {
		o.Window = 16
	}
	if o.PeerFetches == 0 {
		o.PeerFetches = 6
	}
	if o.ServerFetches == 0 {
		o.ServerFetches = 8
	}
	s := &Swarm{
		o:       o,
		have:    NewBitmap(o.Pieces),
		idle:    NewBitmap(o.Pieces),
		missing: o.Pieces,
		reach:   o.Pieces,
		pieces:  make([]piece, o.Pieces),
		banned:  map[netip.Addr]bool{},
		exposed: map[netip.Addr]bool{},
		left:    map[netip.AddrPort]time.Duration{},
	}
	for p := range s.pieces {
		if o.Idle {
			s.pass(p)
		}
	}
	return s
}

// Tracking says whether there is a tracker that answers. When it is lost, pieces that no peer has come from the origin
// at once; peers stay. A join that only brought more peers changes nothing else: the question that is open stays open.
func (s *Swarm) Tracking(now time.Duration, there bool) {
	if there && s.tracker && !s.rejoin {
		return
	}
	s.tracker, s.asking, s.asked, s.told, s.rejoin = there, false, now, false, false
	s.joinWait = joinAgain
	s.joinAt = now + s.joinWait
	for p := range s.pieces {
		s.pieces[p].coming = 0
	}
}

// Bear takes how long word may be on its way. A tracker that says more than can be is not believed.
func (s *Swarm) Bear(late time.Duration) { s.late = Bounded(late) }

// Have is what this node has; it changes with Done.
func (s *Swarm) Have() Bitmap { return s.have }

// Usual is how long a transfer from a peer usually takes; 0: not known.
func (s *Swarm) Usual() time.Duration { return s.typical }

// Directed tells whether there is a tracker that answers.
func (s *Swarm) Directed() bool { return s.tracker }

// Missing is how many pieces this node does not have.
func (s *Swarm) Missing() int { return s.missing }

// Hold notes a piece that is here without a transfer of the swarm, such as one that a cache had.
func (s *Swarm) Hold(p int) {
	if s.have.Has(p) {
		return
	}
	s.pass(p)
	s.have.Set(p)
	s.answered(p)
}

// Ahead has a piece fetched ahead after all, which was believed to be had without a transfer.
func (s *Swarm) Ahead(p int) {
	if s.idle.Has(p) && !s.have.Has(p) {
		s.idle[p>>3] &^= 1 << (p & 7)
		s.missing++
		s.first = min(s.first, p)
	}
}

// Drop notes that a piece that was here was let go of. It is fetched again when a read waits for it.
func (s *Swarm) Drop(p int) {
	if s.have.Has(p) {
		s.have[p>>3] &^= 1 << (p & 7)
	}
}

// Lose gives a piece up that is not to be had.
func (s *Swarm) Lose(p int) {
	s.pass(p)
	s.answered(p)
	s.cancelAll(p)
}

// pass stops fetching a piece ahead.
func (s *Swarm) pass(p int) {
	if s.idle.Has(p) {
		return
	}
	s.idle.Set(p)
	s.missing--
	for s.first < s.o.Pieces && s.idle.Has(s.first) {
		s.first++
	}
}

// answered ends the demand for a piece.
func (s *Swarm) answered(p int) {
	s.demands = slices.DeleteFunc(s.demands, func(d demand) bool { return d.piece == p })
}

// Reach says how many pieces, from the first on, there is room for; none of the others is fetched ahead.
func (s *Swarm) Reach(pieces int) { s.reach = min(pieces, s.o.Pieces) }

// Demand says that a read waits for a piece.
func (s *Swarm) Demand(now time.Duration, p int) {
	if !s.have.Has(p) && !s.WaitedFor(p) {
		s.pieces[p].failed = 0
		s.demands = append(s.demands, demand{piece: p, since: now})
	}
}

// Done takes a piece that came and was verified. Other transfers of it are cancelled.
func (s *Swarm) Done(now time.Duration, f Fetch) {
	start, ok := s.land(f)
	if !ok {
		return
	}
	if k := s.find(f.Peer); k != nil {
		k.strikes, k.busy = 0, 0
		s.lag(now, k, now-start)
	}
	if f.Origin() {
		s.outrun(now, f.Piece, now-start)
		s.direct = smooth(s.direct, now-start)
	} else {
		s.learn(now - start)
		s.fed++
	}
	s.Hold(f.Piece)
	s.cancelAll(f.Piece)
}

// outrun strikes peers that the origin was much quicker than, though it was asked after them: without that, reads that
// wait would have the origin send each piece that a dead peer promised, and it would never be left.
func (s *Swarm) outrun(now time.Duration, p int, took time.Duration) {
	limit := max(hedgeLeast, slowFactor*max(s.typical, took))
	for i := len(s.flights) - 1; i >= 0; i-- {
		f := s.flights[i]
		if f.Piece != p || f.Origin() || now < f.start+limit {
			continue
		}
		s.cancel(f.Fetch)
		if k := s.find(f.Peer); k != nil {
			s.failed(now, k, true)
			s.strike(now, k, true)
		}
	}
}

// cancelAll stops all transfers of a piece.
func (s *Swarm) cancelAll(p int) {
	for i := len(s.flights) - 1; i >= 0; i-- {
		if s.flights[i].Piece == p {
			s.cancel(s.flights[i].Fetch)
		}
	}
}

// learn takes the time of a transfer from a peer.
func (s *Swarm) learn(d time.Duration) {
	if s.learned < learnLeast {
		s.learned++
		s.typical += (d - s.typical) / time.Duration(s.learned)
		return
	}
	s.typical = smooth(s.typical, d)
}

func smooth(usual, d time.Duration) time.Duration {
	if usual == 0 {
		return d
	}
	return usual + (d-usual)/8
}

// Fail takes a transfer that brought nothing.
func (s *Swarm) Fail(now time.Duration, f Fetch, why Failure) {
	if _, ok := s.land(f); !ok {
		return
	}
	if f.Origin() {
		s.pieces[f.Piece].coming = 0
		return
	}
	k := s.find(f.Peer)
	if why == Wrong {
		s.Accuse(f.Peer)
	}
	if why != Busy {
		s.pieces[f.Piece].failed++
	}
	switch {
	case k == nil:
	case why == Busy:
		s.refused(now, k)
	case why == Missing:
		s.pieces[f.Piece].holders &^= k.slot
		s.strike(now, k, false)
	case why == Broken:
		s.failed(now, k, false)
		s.strike(now, k, false)
	}
}

// refused leaves a peer in peace that was busy, the longer the more often in a row it was: for what a usual
// transfer takes, or where that is long, half of it at first, and once and a half in the end.
func (s *Swarm) refused(now time.Duration, k *known) {
	quarters := func(n int) time.Duration { return s.typical * time.Duration(n) / 4 }
	pause := max(restLeast<<min(k.busy, 8), quarters(4+min(k.busy, 2)))
	k.rest = now + min(pause, restMost)
	k.calm = now + min(pause, max(restMost, quarters(2+min(k.busy, 4))))
	k.busy++
}

// take starts a transfer.
func (s *Swarm) take(now time.Duration, f Fetch) {
	s.flights = append(s.flights, flight{f, now})
	s.pieces[f.Piece].flights++
	if f.Origin() {
		s.originFlights++
	} else {
		s.peerFlights++
		s.find(f.Peer).flights++
	}
	s.step.Fetch = append(s.step.Fetch, f)
}

// land ends a transfer; ok is false when there is none such.
func (s *Swarm) land(f Fetch) (start time.Duration, ok bool) {
	i := slices.IndexFunc(s.flights, func(x flight) bool { return x.Fetch == f })
	if i < 0 {
		return 0, false
	}
	start = s.flights[i].start
	s.flights[i] = s.flights[len(s.flights)-1]
	s.flights = s.flights[:len(s.flights)-1]
	s.pieces[f.Piece].flights--
	if f.Origin() {
		s.originFlights--
	} else {
		s.peerFlights--
		if k := s.find(f.Peer); k != nil {
			k.flights--
		}
	}
	return start, true
}

func (s *Swarm) cancel(f Fetch) {
	if _, ok := s.land(f); ok {
		s.step.Cancel = append(s.step.Cancel, f)
	}
}
