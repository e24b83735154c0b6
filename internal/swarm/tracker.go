package swarm

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"
)

// TrackerOptions are the settings of a Tracker. Zero values mean the defaults.
type TrackerOptions struct {
	Uplink     int64         // bytes a second that the server can send; 0: not known, then transfers are counted
	NodeLink   int64         // the same of a node; 0: as the server
	Peers      int           // named to a node that joins; default 10
	Copies     int           // of a piece from the server once the uplink is spent; default 2
	Forget     time.Duration // a node that was silent for so long is forgotten; default 30 s
	BanReports int           // nodes that must have got wrong bytes from one until it is banned for all; default 3

	Random *rand.Rand // required
}

func (o *TrackerOptions) defaults() {
	if o.Peers == 0 {
		o.Peers = 10
	}
	if o.Copies == 0 {
		o.Copies = 2
	}
	if o.Forget == 0 {
		o.Forget = 30 * time.Second
	}
	if o.BanReports == 0 {
		o.BanReports = 3
	}
}

// Bounds of what a tracker remembers, so that no node can make it grow.
const (
	maxMembers    = 65536 // of a swarm
	maxSwarms     = 1024  // with each place whose nodes keep to themselves
	MaxPieces     = 8192  // of a pack: 2 GiB raw in pieces of 256 KiB
	maxPerAddress = 32    // members with one address: a node serves its root and its extensions
)

// member is a node in a swarm.
type member struct {
	addr           netip.AddrPort
	subnet         netip.Prefix
	location       string // rack or switch, as declared; "": not declared
	idle           bool   // its last word was a sign of life, or that it has everything
	localOnly      bool   // it is a peer of those of its place or subnet only
	have           Bitmap
	seen           time.Duration
	index          int // its place in all
	degree         int // about how many peers it has: how often it was named, and others to it
	waiting        *queuedRequest
	bootstrapUntil time.Duration    // it sends what boots start with until then
	avoids         []netip.AddrPort // peers that it has left
	unreliable     bool             // left by so many that what it has does not count

	fromPeers  int           // pieces that peers gave it
	sentAwayAt time.Duration // when it was first sent to its peers since they gave it one; 0: it was not
	stalled    bool          // it was given nothing for so long that it is served as if there were nobody else
	bansTold   int           // how many of those banned for all it was told of
}

// swarm is what the tracker knows of the nodes of one pack that may be peers of each other: of all that do not keep
// to their place, or of those of one place that do.
type swarm struct {
	pack       string
	locality   locality
	members    map[netip.AddrPort]*member
	all        []*member // in no order, for choosing by chance
	bySubnet   map[netip.Prefix][]*member
	byLocation map[string][]*member
	avoidedBy  map[netip.AddrPort]int // members that have left a peer, by its address: it may come and go
	pieces     []pieceState
	first      int // no piece before it is unseeded
	furthest   int // the furthest piece that somebody asked for
}

// seeded is what is known of one piece.
type pieceState struct {
	copies int           // sent by this server
	last   time.Duration // when the last one was granted
	to     [maxHolders]netip.AddrPort
	held   int // members that said they have it, without those that are shunned
}

// give notes that a copy goes to a node.
func (s *pieceState) addCopy(to netip.AddrPort, now time.Duration) {
	s.to[s.copies&1] = to
	s.copies++
	s.last = now
}

// lack takes back what a node was given, which is no help to others.
func (s *pieceState) removeCopy(from netip.AddrPort) {
	for i, to := range s.to {
		if to == from && i < s.copies {
			s.copies--
			s.to[i], s.to[s.copies&1] = s.to[s.copies&1], netip.AddrPort{}
		}
	}
}

// Tracker is the server's part of all swarms. All it knows may be lost at any moment; it learns it again from what
// nodes ask. It is not safe for use by several goroutines.
type Tracker struct {
	o          TrackerOptions
	swarms     map[locality]*swarm
	swarmOf    map[packNode]*swarm // in which each node is
	nodesOf    map[string]int      // nodes of each pack
	ports      map[netip.Addr]int
	uplink     uplink
	queue      []*queuedRequest
	kernelBusy bool
	demand     demandObjects
	grants     grants
	firstAfter time.Duration // when the next start may be sent for which there is neither room nor a node

	tickets      Ticket
	queuedJoins  int // boots that stand in line
	joinQueues   []*joinQueue
	smallObjects objectQueue // small objects that were not granted
	largeObjects objectQueue // and others

	bans  bans
	now   time.Duration // of the last join, start or look
	swept time.Duration
}

// NewTracker returns a tracker that knows nobody.
func NewTracker(o TrackerOptions) *Tracker {
	o.defaults()
	return &Tracker{
		o:       o,
		swarms:  map[locality]*swarm{},
		swarmOf: map[packNode]*swarm{},
		nodesOf: map[string]int{},
		ports:   map[netip.Addr]int{},
		uplink:  uplink{rate: o.Uplink},
		bans:    newBans(),
		grants:  grants{all: map[grant]granted{}, owed: map[netip.Addr]owed{}},
	}
}

// Join is a node that comes, or comes again.
type Announcement struct {
	Swarm     string         // names the pack, or the version where that has none
	Pieces    int            // of the pack; 0: there is none, and only loose objects go round
	Node      netip.AddrPort // where it serves
	Subnet    netip.Prefix   // that it is in; zero: not known
	Location  string         // its rack or switch; "": not known
	LocalOnly bool           // only peers of the same place or subnet
	Have      Bitmap         // what it has; nil: nothing
}

// Joined is the answer: peers, the nearest first, and addresses that are banned.
type AnnounceReply struct {
	Peers         []netip.AddrPort
	Banned        []netip.Addr
	AnnounceDelay time.Duration // see Tracker.Late
}

// Join adds a node to a swarm and names peers. ok is false when there is no room or the question makes no sense.
func (t *Tracker) Announce(now time.Duration, j Announcement) (out AnnounceReply, ok bool) {
	t.Sweep(now)
	if !j.Node.IsValid() || t.bans.has(j.Node.Addr()) {
		return out, false
	}
	w := t.swarmFor(j.Swarm, j.Node)
	if w == nil {
		if t.ports[j.Node.Addr()] >= maxPerAddress {
			return out, false
		}
		w = t.swarm(localityOf(j.Swarm, j.Location, j.Subnet, j.LocalOnly), j.Pieces)
	}
	if w == nil || len(w.pieces) != j.Pieces {
		return out, false
	}
	m := w.members[j.Node]
	if m == nil {
		if len(w.all) >= maxMembers {
			return out, false
		}
		m = &member{addr: j.Node, subnet: j.Subnet, location: j.Location, localOnly: j.LocalOnly, have: NewBitmap(j.Pieces)}
		t.add(w, m)
	}
	m.seen = now
	w.setHave(m, j.Have)
	m.idle = m.have.Count() == j.Pieces
	out.Peers, out.AnnounceDelay = w.choose(t.o.Random, m, t.o.Peers), t.announceDelay(t.nodesOf[w.pack])
	m.bansTold = 0 // its node may have begun anew
	out.Banned = t.bannedSince(m)
	return out, true
}

// swarm returns a swarm, made if it is new; nil when there are too many, or the number of pieces is another.
func (t *Tracker) swarm(key locality, pieces int) *swarm {
	w := t.swarms[key]
	if w == nil {
		if len(t.swarms) >= maxSwarms || pieces < 0 || pieces > MaxPieces {
			return nil
		}
		w = &swarm{pack: key.pack, locality: key, members: map[netip.AddrPort]*member{}, bySubnet: map[netip.Prefix][]*member{},
			byLocation: map[string][]*member{}, avoidedBy: map[netip.AddrPort]int{}, pieces: make([]pieceState, pieces)}
		t.swarms[key] = w
	}
	if len(w.pieces) != pieces {
		return nil
	}
	return w
}

// Leave forgets a node that says goodbye.
func (t *Tracker) Leave(key string, node netip.AddrPort) {
	if w := t.swarmFor(key, node); w != nil {
		t.drop(w, w.members[node])
	}
}

// add puts a member into a swarm.
func (t *Tracker) add(w *swarm, m *member) {
	w.add(m)
	t.swarmOf[packNode{w.pack, m.addr}] = w
	t.nodesOf[w.pack]++
	t.ports[m.addr.Addr()]++
}

func (t *Tracker) drop(w *swarm, m *member) {
	if m.waiting != nil {
		m.waiting.done = true
	}
	w.remove(m)
	delete(t.swarmOf, packNode{w.pack, m.addr})
	if t.nodesOf[w.pack]--; t.nodesOf[w.pack] == 0 {
		delete(t.nodesOf, w.pack)
	}
	if a := m.addr.Addr(); t.ports[a] <= 1 {
		delete(t.ports, a)
		t.bans.left(t.now, a)
	} else {
		t.ports[a]--
	}
	if len(w.all) == 0 {
		delete(t.swarms, w.locality)
	}
}

// sweep forgets nodes that were silent, and bans that are over.
func (t *Tracker) Sweep(now time.Duration) {
	t.now = now
	if now < t.swept+t.o.Forget/4 {
		return
	}
	t.swept = now
	t.bans.expire(now)
	for _, w := range t.swarms {
		for i := len(w.all) - 1; i >= 0; i-- {
			m := w.all[i]
			patience := t.o.Forget + 2*t.announceDelay(t.nodesOf[w.pack])
			if m.idle { // it has nothing to ask, and says seldom that it lives
				patience = max(patience, 5*keepAliveEvery/2)
			}
			if m.waiting == nil && now > m.seen+patience {
				t.drop(w, m)
			}
		}
	}
}

// member is a node in whatever swarm it is, nil when it is in none.
func (t *Tracker) member(node netip.AddrPort) *member {
	for _, w := range t.swarms {
		if m := w.members[node]; m != nil {
			return m
		}
	}
	return nil
}

// Has tells whether a node with this address is in a swarm.
func (t *Tracker) Has(a netip.Addr) bool { return t.ports[a] > 0 }

// Nodes is how many nodes are in all swarms.
func (t *Tracker) Nodes() int {
	n := 0
	for _, w := range t.swarms {
		n += len(w.all)
	}
	return n
}

// Key is that of the swarm that a node is in whose key begins so; "" when there is none.
func (t *Tracker) SwarmKey(begin string, node netip.AddrPort) string {
	for _, w := range t.swarms {
		if begin != "" && strings.HasPrefix(w.pack, begin) && w.members[node] != nil {
			return w.pack
		}
	}
	return ""
}

// Pieces is how many pieces the pack of a swarm has that a node is in, 0 when it is in none such.
func (t *Tracker) Pieces(key string, node netip.AddrPort) int {
	if w := t.swarmFor(key, node); w != nil {
		return len(w.pieces)
	}
	return 0
}
