package swarm

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"
)

// TrackerOptions are the settings of a Tracker. Zero values mean the defaults.
type TrackerOptions struct {
	Uplink     int64         // bytes per second; 0: unknown, then transfers are counted instead
	NodeLink   func() int64  // the same for a node's link; nil or 0: as the server's
	Peers      int           // peers named to a node; default 10
	Forget     time.Duration // a node that is silent for so long is removed; default 30 s
	BanReports int           // reports of wrong bytes that ban an address for all; default 3

	Random *rand.Rand // required
}

func (o *TrackerOptions) defaults() {
	if o.NodeLink == nil {
		o.NodeLink = func() int64 { return 0 }
	}
	if o.Peers == 0 {
		o.Peers = 10
	}
	if o.Forget == 0 {
		o.Forget = 30 * time.Second
	}
	if o.BanReports == 0 {
		o.BanReports = 3
	}
}

// Limits of the tracker's memory.
const (
	maxMembers    = 65536 // members of a swarm
	maxSwarms     = 1024  // swarms: one for each pack and locality
	MaxPieces     = 8192  // pieces of a pack: 2 GiB raw in pieces of 256 KiB
	maxPerAddress = 32    // members with one address: a node shares its root and its extensions
)

// member is a node in a swarm.
type member struct {
	addr           netip.AddrPort
	subnet         netip.Prefix
	location       string // rack or switch, as declared; "": not declared
	idle           bool   // its last message was a keep-alive, or it has all pieces
	localOnly      bool   // it shares within its location or subnet only
	have           Bitmap
	seen           time.Duration
	index          int // in swarm.all
	degree         int // approximate number of its peers
	waiting        *queuedRequest
	bootstrapUntil time.Duration    // end of its uploads of bootstrap files
	avoids         []netip.AddrPort // peers that it avoids
	unreliable     bool             // its pieces do not count, because others avoid it

	fromPeers  int           // pieces that peers sent it
	sentAwayAt time.Duration // when it was first told to ask peers, since one last sent it a piece; 0: it was not
	stalled    bool          // peers sent it nothing for so long that it is served as if alone
	bansTold   int           // number of bans that it was told
}

// swarm holds the nodes of one pack and locality, which may be peers of each other.
type swarm struct {
	pack       string
	locality   locality
	members    map[netip.AddrPort]*member
	all        []*member // unordered, for random choice
	bySubnet   map[netip.Prefix][]*member
	byLocation map[string][]*member
	avoidedBy  map[netip.AddrPort]int // number of members that avoid an address, which may be no member
	pieces     []pieceState
	first      int // no piece before it is unseeded
}

// pieceState is what the tracker knows of one piece.
type pieceState struct {
	copies int           // copies sent by this server
	last   time.Duration // when the last copy was granted
	to     [maxHolders]netip.AddrPort
	held   int // number of members that have it, without unreliable ones
}

// addCopy notes that the server sends a copy to a node.
func (s *pieceState) addCopy(to netip.AddrPort, now time.Duration) {
	s.to[s.copies&1] = to
	s.copies++
	s.last = now
}

// removeCopy takes back the copies of a node that does not share them.
func (s *pieceState) removeCopy(from netip.AddrPort) {
	for i, to := range s.to {
		if to == from && i < s.copies {
			s.copies--
			s.to[i], s.to[s.copies&1] = s.to[s.copies&1], netip.AddrPort{}
		}
	}
}

// Tracker decides for the server which node fetches which piece from it, which peers it names, and when an object is
// sent. A restart loses nothing: the next messages tell the tracker all it needs. It is not safe for concurrent use.
type Tracker struct {
	o          TrackerOptions
	swarms     map[locality]*swarm
	swarmOf    map[packNode]*swarm // the swarm of each node
	nodesOf    map[string]int      // number of nodes, by pack
	ports      map[netip.Addr]int
	uplink     uplink
	queue      []*queuedRequest
	kernelBusy bool
	demand     demandObjects
	grants     grants
	firstAfter time.Duration // earliest time of the next join served on a busy uplink, see mayJoinFirst

	tickets     Ticket
	queuedJoins int // number of queued join requests
	joinQueues  []*joinQueue
	objects     objectQueue // requests for ungranted objects

	bans  bans
	now   time.Duration // time of the last message
	swept time.Duration
}

// NewTracker returns a tracker that knows no node.
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

// Announcement is the message of a node that joins a swarm or announces itself again.
type Announcement struct {
	Swarm     string         // the pack, or the version if it has no pack
	Pieces    int            // pieces of the pack; 0: only demand objects are shared
	Node      netip.AddrPort // where it serves
	Subnet    netip.Prefix   // zero: not known
	Location  string         // its rack or switch; "": not known
	LocalOnly bool           // whether the node shares within its location or subnet only
	Have      Bitmap         // nil: nothing
}

// AnnounceReply names peers, the nearest first, and banned addresses.
type AnnounceReply struct {
	Peers         []netip.AddrPort
	Banned        []netip.Addr
	AnnounceDelay time.Duration // see Tracker.AnnounceDelay
}

// Announce adds a node to a swarm and names peers. ok is false when there is no room, the node is banned, or the
// announcement does not match the swarm.
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
		m = &member{
			addr:      j.Node,
			subnet:    j.Subnet,
			location:  j.Location,
			localOnly: j.LocalOnly,
			have:      NewBitmap(j.Pieces),
		}
		t.add(w, m)
	}
	m.seen = now
	w.setHave(m, j.Have)
	m.idle = m.have.Count() == j.Pieces
	out.Peers, out.AnnounceDelay = w.choose(t.o.Random, m, t.o.Peers), t.announceDelay(t.nodesOf[w.pack])
	m.bansTold = 0 // the node may have restarted
	out.Banned = t.bannedSince(m)
	return out, true
}

// swarm returns the swarm of a key, and creates it if it is new. It returns nil when there are too many swarms or the
// number of pieces differs.
func (t *Tracker) swarm(key locality, pieces int) *swarm {
	w := t.swarms[key]
	if w == nil {
		if len(t.swarms) >= maxSwarms || pieces < 0 || pieces > MaxPieces {
			return nil
		}
		w = &swarm{
			pack:       key.pack,
			locality:   key,
			members:    map[netip.AddrPort]*member{},
			bySubnet:   map[netip.Prefix][]*member{},
			byLocation: map[string][]*member{},
			avoidedBy:  map[netip.AddrPort]int{},
			pieces:     make([]pieceState, pieces),
		}
		t.swarms[key] = w
	}
	if len(w.pieces) != pieces {
		return nil
	}
	return w
}

// Leave removes a node.
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

// Sweep removes silent nodes and bans that have ended.
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
			if m.idle { // it has nothing to request, and sends keep-alives only
				patience = max(patience, 5*keepAliveEvery/2)
			}
			if m.waiting == nil && now > m.seen+patience {
				t.drop(w, m)
			}
		}
	}
}

// member returns a node of any swarm, or nil.
func (t *Tracker) member(node netip.AddrPort) *member {
	for _, w := range t.swarms {
		if m := w.members[node]; m != nil {
			return m
		}
	}
	return nil
}

// Has reports whether a node with this address is in a swarm.
func (t *Tracker) Has(a netip.Addr) bool { return t.ports[a] > 0 }

// Nodes returns the number of nodes in all swarms.
func (t *Tracker) Nodes() int {
	n := 0
	for _, w := range t.swarms {
		n += len(w.all)
	}
	return n
}

// SwarmKey returns the full name of the swarm that a node is in and whose name begins with begin, or "".
func (t *Tracker) SwarmKey(begin string, node netip.AddrPort) string {
	for _, w := range t.swarms {
		if begin != "" && strings.HasPrefix(w.pack, begin) && w.members[node] != nil {
			return w.pack
		}
	}
	return ""
}

// Pieces returns the number of pieces of a node's swarm, or 0 when the node is in none.
func (t *Tracker) Pieces(key string, node netip.AddrPort) int {
	if w := t.swarmFor(key, node); w != nil {
		return len(w.pieces)
	}
	return 0
}
