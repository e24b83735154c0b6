package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// Grants. A piece request is answered at once while the uplink has room. Otherwise it is held open until there is room.
// After a while it is answered with the names of the nodes that have the pieces. So nodes need not poll, and the server
// does not send what a peer could.
const (
	maxWant    = 16 // pieces in a request
	maxGrant   = 8  // pieces in a reply
	aloneGrant = 24 // pieces in a reply to a node that is alone in its swarm
	// A lone node gets large grants only once it has so many pieces. Before that, other nodes may be about to join, and
	// would wait behind its pieces.
	aloneMinPieces     = 8
	aloneMaxBytes      = 8 << 20                // bytes of such a grant: the node itself tells the size of a piece
	minHold            = 100 * time.Millisecond // a request is held at least so long, or
	holdPieces         = 64                     // while so many pieces are sent; but not longer than its node waits
	maxRequestRate     = 10000                  // requests per second; with more nodes each is held longer
	extraCopyDoublings = 8                      // doublings of copyDelay for each copy after the second
	// Several pieces of a large pack are granted together, so that a node sends about this number of requests.
	requestsPerNode = 50
	// Limit of pieces granted together. Larger batches delay the last node of a small swarm.
	maxBatch = 4
	maxScan  = 64 // queued requests examined although there is no piece for them
)

// queuedRequest is a piece request that waits for room on the uplink.
type queuedRequest struct {
	swarm   *swarm
	node    *member
	want    []int
	urgent  []int // pieces whose holders the reply names
	max     int
	size    int64
	limit   int           // pieces from this index on are not wanted
	maxHold time.Duration // how long its node waits for a reply
	until   time.Duration
	done    bool
}

// PieceRequest is a Request as the tracker receives it.
type PieceRequest struct {
	Swarm string
	Node  netip.AddrPort
	Size  int64 // average bytes of a piece of the pack
	Request
}

// PieceReply is the answer to a request that was queued.
type PieceReply struct {
	Swarm string
	Node  netip.AddrPort
	Answer
}

// Ask answers a piece request. If wait is true, Step returns the answer later. A new request of a node replaces its
// queued one. If known is false, the node must announce itself.
func (t *Tracker) Ask(now time.Duration, q PieceRequest) (a Answer, wait, known bool) {
	w := t.swarmFor(q.Swarm, q.Node)
	if w == nil {
		return a, false, false
	}
	m := w.members[q.Node]
	m.seen = now
	w.setHave(m, q.Have)
	m.setFromPeers(q.FromPeers)
	w.setAvoided(m, q.Avoided)
	m.idle = len(q.Want) == 0
	want := slices.DeleteFunc(
		slices.Clone(q.Want[:min(len(q.Want), maxWant)]),
		func(p int) bool { return p < 0 || p >= len(w.pieces) },
	)
	x := &queuedRequest{
		swarm:   w,
		node:    m,
		want:    want,
		urgent:  want[:min(max(q.Urgent, 0), len(want))],
		max:     min(max(q.Max, 1), maxGrant),
		size:    boundSize(q.Size),
		limit:   len(w.pieces),
		maxHold: requestHold(q.Timeout),
	}
	if len(want) == 0 {
		return t.answer(now, x, nil), false, true // a keep-alive
	}
	if q.Limit > 0 {
		x.limit = min(x.limit, q.Limit)
	}
	if m.waiting != nil {
		m.waiting.done = true
		m.waiting = nil
	}
	if len(t.queue) == 0 {
		if grant := t.grant(now, x); len(grant) > 0 {
			return t.answer(now, x, grant), false, true
		}
	}
	x.until = now + t.hold(x)
	m.waiting = x
	t.queue = append(t.queue, x)
	return a, true, true
}

func (t *Tracker) hold(x *queuedRequest) time.Duration {
	return min(
		max(minHold, t.uplink.time(holdPieces*x.size), time.Duration(len(t.queue))*time.Second/maxRequestRate),
		x.maxHold,
	)
}

// Cancel removes the queued request of a node that does not wait any more.
func (t *Tracker) Cancel(key string, node netip.AddrPort) {
	if w := t.swarmFor(key, node); w != nil && w.members[node].waiting != nil {
		w.members[node].waiting.done = true
		w.members[node].waiting = nil
	}
}

// Step returns the answers that are due, and when to call it again, 0 when no request is queued.
func (t *Tracker) Step(now time.Duration) (replies []PieceReply, wake time.Duration) {
	i, looked := 0, 0
	for ; i < len(t.queue); i++ {
		x := t.queue[i]
		if x.done {
			continue
		}
		grant := t.grant(now, x)
		if len(grant) == 0 && now < x.until {
			if !t.uplink.free(now, x.size) {
				break
			}
			// There is no piece for this request, but maybe for those behind it.
			wake = Earlier(wake, x.until)
			if looked++; looked > maxScan || i > maxScan*maxScan {
				break
			}
			if x.node.unreliable { // it gets few pieces anyway, and must not hide other requests
				looked--
			}
			continue
		}
		x.done, x.node.waiting = true, nil
		replies = append(replies, PieceReply{x.swarm.pack, x.node.addr, t.answer(now, x, grant)})
	}
	t.queue = slices.DeleteFunc(t.queue, func(x *queuedRequest) bool { return x.done })
	if len(t.queue) > 0 {
		x := t.queue[0]
		wake = Earlier(wake, x.until)
		if at := t.uplink.freeAt(now, x.size); at > now {
			wake = Earlier(wake, at)
		}
	}
	return replies, wake
}

// Earlier returns the earlier of two moments, where 0 is none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// grant chooses pieces for a request while the uplink has room.
func (t *Tracker) grant(now time.Duration, x *queuedRequest) []int {
	t.expireTransfers(now)
	var out []int
	most, alone := x.max, len(x.swarm.all) == 1 &&
		x.node.have.Count() >= aloneMinPieces // no other node of this swarm needs the uplink
	if alone {
		most = int(min(aloneGrant, aloneMaxBytes/x.size))
	}
	batch := x.batch()
	for len(out) < most && (alone || len(out)%batch > 0 || t.uplink.free(now, x.size)) {
		p := t.pick(now, x, out)
		if p < 0 {
			break
		}
		if !x.node.unreliable && !x.node.stalled { // the pieces of such a node do not help others
			x.swarm.pieces[p].addCopy(x.node.addr, now)
		}
		t.uplink.start(sending{swarm: x.swarm, node: x.node.addr, piece: p, since: now}, x.size)
		out = append(out, p)
		if len(t.queue) > 1 && len(out) >= batch { // other requests wait
			break
		}
	}
	return out
}

// batch returns how many pieces are granted together while other requests wait. One piece is fastest, but then a node
// of a small swarm with a large pack would send hundreds of requests.
func (x *queuedRequest) batch() int {
	nodes := len(x.swarm.all)
	if x.node.have.Count() < aloneMinPieces {
		return 1
	}
	return min(max(1, (len(x.swarm.pieces)/requestsPerNode+nodes/2)/nodes), maxBatch)
}

// pick returns the piece to grant: the first one that no node has, else one that may be sent again. -1: none.
func (t *Tracker) pick(now time.Duration, x *queuedRequest, taken []int) int {
	w := x.swarm
	if x.node.isStalled(now, t.copyDelay(x)+t.hold(x)) {
		return x.nextWanted(taken)
	}
	if x.node.unreliable {
		return t.pickAgain(now, x, taken)
	}
	for _, p := range x.want {
		if w.isUnseeded(p) {
			return p
		}
	}
	for w.first < len(w.pieces) && !w.isUnseeded(w.first) {
		w.first++
	}
	if w.first < x.limit && !x.node.have.Has(w.first) { // the server seeds pieces before nodes ask for them
		return w.first
	}
	if len(x.urgent) == 0 { // no piece is needed soon: no second copy
		return -1
	}
	return t.pickAgain(now, x, taken)
}

// nextWanted returns the first piece that is wanted and not taken.
func (x *queuedRequest) nextWanted(taken []int) int {
	for _, p := range x.want {
		if !x.node.have.Has(p) && !slices.Contains(taken, p) {
			return p
		}
	}
	return -1
}

// pickAgain returns the piece with the fewest copies, if it may be sent once more.
func (t *Tracker) pickAgain(now time.Duration, x *queuedRequest, taken []int) int {
	w, best := x.swarm, -1
	for _, p := range x.want {
		if x.node.have.Has(p) || slices.Contains(taken, p) || x.node.unreliable && w.isUnseeded(p) {
			continue
		}
		if best < 0 || w.pieces[p].copies < w.pieces[best].copies {
			best = p
		}
	}
	if best >= 0 && t.mayCopyAgain(now, x, best) {
		return best
	}
	return -1
}

// copyDelay is how long the first copy of a piece may take to reach all nodes before a second one is sent.
func (t *Tracker) copyDelay(x *queuedRequest) time.Duration {
	return max(20*time.Millisecond, 16*t.uplink.time(x.size)) + 2*t.announceDelay(t.nodesOf[x.swarm.pack])
}

// mayCopyAgain reports whether another copy of piece p may be sent. The pause grows with the number of copies. More
// copies are needed, because requesters may be unable to reach the nodes that have the piece.
func (t *Tracker) mayCopyAgain(now time.Duration, x *queuedRequest, p int) bool {
	s := x.swarm.pieces[p]
	more := min(max(0, s.copies-1), 2)
	if x.node.unreliable { // reliable nodes have the piece and share it
		more = 1
	}
	return now >= s.last+t.copyDelay(x)<<(extraCopyDoublings*more)
}

func (w *swarm) isUnseeded(p int) bool { return w.pieces[p].copies == 0 && w.pieces[p].held == 0 }

// answer returns the answer to a request: the grant, and which other pieces some node has or is getting.
func (t *Tracker) answer(now time.Duration, x *queuedRequest, grant []int) Answer {
	if len(grant) == 0 && len(x.want) > 0 {
		x.node.sendAway(now)
	}
	a := Answer{
		Grant:         grant,
		RetryAfter:    t.copyDelay(x),
		AnnounceDelay: t.announceDelay(t.nodesOf[x.swarm.pack]),
		Banned:        t.bannedSince(x.node),
	}
	for _, p := range x.want {
		if slices.Contains(grant, p) || x.node.stalled { // a stalled node gets nothing from the holders
			continue
		}
		if s := x.swarm.pieces[p]; s.copies > 0 || s.held > 0 {
			n := HeldPiece{Piece: p}
			if slices.Contains(x.urgent, p) {
				n.Peers = x.holders(&s)
			}
			a.Held = append(a.Held, n)
		}
	}
	return a
}

// holders returns the nodes that the server sent a piece to last, and that may be peers of the requester.
func (x *queuedRequest) holders(s *pieceState) (out []netip.AddrPort) {
	for _, to := range s.to[:min(s.copies, len(s.to))] {
		if m := x.swarm.members[to]; m != nil && m != x.node && x.node.mayMeet(m) {
			out = append(out, to)
		}
	}
	return out
}

// HeldPiece is a piece that other nodes have or are getting.
type HeldPiece struct {
	Piece int
	Peers []netip.AddrPort // its holders, if the piece is urgent
}

// Busy tells the tracker whether kernel+initrd transfers fill the uplink. Then the server sends only what the swarm
// needs.
func (t *Tracker) Busy(busy bool) { t.kernelBusy = busy }

// Sent ends a granted transfer, whether or not it succeeded.
func (t *Tracker) Sent(key string, node netip.AddrPort, piece int) {
	t.uplink.done(key, node, piece)
}

// Begin notes that a node has requested a piece that it was granted.
func (t *Tracker) Begin(now time.Duration, key string, node netip.AddrPort, piece int) {
	t.uplink.begin(now, key, node, piece)
}

// expireTransfers takes back grants that were never used. Their nodes are gone, so no peer can get the pieces from
// them.
func (t *Tracker) expireTransfers(now time.Duration) {
	for _, x := range t.uplink.expire(now) {
		if x.swarm == nil { // an ungranted object
			continue
		}
		if s := &x.swarm.pieces[x.piece]; s.held == 0 && s.copies > 0 {
			s.copies--
			x.swarm.first = min(x.swarm.first, x.piece)
		}
	}
}
