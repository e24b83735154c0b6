package swarm

import (
	"net/netip"
	"slices"
	"time"
)

// Directing. A question is answered at once while the uplink has room. When it has none, the question waits, and the
// answer comes when there is room, or after a while with the names of those who have the pieces. So a storm does not
// poll, and the uplink never sends what somebody else could.
const (
	maxWant    = 16 // pieces of a question
	maxGrant   = 8  // pieces of an answer
	aloneGrant = 24 // to one who is alone: it shall not ask all the time,
	// once it has so many: who has none is perhaps the first of many, who all wait behind what it is sent
	aloneMinPieces = 8
	aloneMaxBytes  = 8 << 20                // and no more bytes: it says itself how large its pieces are
	holdMin        = 100 * time.Millisecond // a question waits so long, or for so many pieces to be sent
	holdPieces     = 64                     // but never so long that its node takes the tracker for lost,
	// or for that part of a pack of many pieces: nobody shall be sent away much more often than so
	holdPart           = 15
	maxRequestRate     = 10000 // questions a second that are answered; with more nodes, each waits longer
	lostCopyFactor     = 16    // times the patience for a second copy
	extraCopyDoublings = 8     // doublings of the patience for copies beyond Copies
	requestsPerNode    = 50    // that a node shall have about, if it takes no more than
	// pieces for each: simulated, ten nodes are done after 1.17 W/B with so many, 1.08 with two, 1.05 with one
	maxBatch = 4
	maxScan  = 64 // questions that are looked at for which there is nothing
	maxLead  = 32 // pieces that the server runs ahead of what nodes ask for
)

// waiting is a question that waits for room.
type queuedRequest struct {
	swarm   *swarm
	node    *member
	want    []int
	urgent  []int // those of them whose holders are named
	max     int
	size    int64
	limit   int           // no piece from here on
	maxHold time.Duration // that its node waits for
	until   time.Duration
	done    bool
}

// Question is an Ask as the tracker gets it.
type PieceRequest struct {
	Swarm string
	Node  netip.AddrPort
	Size  int64 // bytes of a usual piece of the pack
	Request
}

// Reply is an answer to a question that waited.
type PieceReply struct {
	Swarm string
	Node  netip.AddrPort
	Answer
}

// Ask answers a question. When wait is true the answer comes from Step later; a node has one question at a time, and a
// new one takes the place of the old one. A node that is not in the swarm is not known, and must join.
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
		return t.answer(now, x, nil), false, true // it only says that it lives, and what it has
	}
	w.furthest = max(w.furthest, slices.Max(want))
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
	pieces := max(holdPieces, len(x.swarm.pieces)/holdPart)
	return min(
		max(holdMin, t.uplink.time(x.size*int64(pieces)), time.Duration(len(t.queue))*time.Second/maxRequestRate),
		x.maxHold,
	)
}

// Cancel forgets the question of a node that does not wait any longer.
func (t *Tracker) Cancel(key string, node netip.AddrPort) {
	if w := t.swarmFor(key, node); w != nil && w.members[node].waiting != nil {
		w.members[node].waiting.done = true
		w.members[node].waiting = nil
	}
}

// Step returns the answers that are due, and the moment at which it shall be called again, 0 when nobody waits.
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
			// Nothing for this one; perhaps there is for those behind it.
			wake = Earlier(wake, x.until)
			if looked++; looked > maxScan || i > maxScan*maxScan {
				break
			}
			if x.node.unreliable { // it gets little, and shall not hide who helps the others
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

// Earlier is the earlier of two moments, where 0 is none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// grant chooses pieces for a question while the uplink has room.
func (t *Tracker) grant(now time.Duration, x *queuedRequest) []int {
	t.expireTransfers(now)
	var out []int
	most, alone := x.max, len(x.swarm.all) == 1 &&
		x.node.have.Count() >= aloneMinPieces // there is nobody to leave room for
	if alone {
		most = int(min(aloneGrant, aloneMaxBytes/x.size))
	}
	batch := x.batch()
	for len(out) < most && (alone || len(out)%batch > 0 || t.uplink.free(now, x.size)) {
		p := t.pick(now, x, out)
		if p < 0 {
			break
		}
		if !x.node.unreliable && !x.node.stalled { // what it has is no help to others
			x.swarm.pieces[p].addCopy(x.node.addr, now)
		}
		t.uplink.start(sending{swarm: x.swarm, node: x.node.addr, piece: p, since: now}, x.size)
		out = append(out, p)
		if len(t.queue) > 1 && len(out) >= batch { // others wait too
			break
		}
	}
	return out
}

// batch is how many pieces are granted together where others wait as well. One each is quickest, but of a pack of
// many pieces a node in a small crowd would ask for hundreds.
func (x *queuedRequest) batch() int {
	nodes := len(x.swarm.all)
	if x.node.have.Count() < aloneMinPieces {
		return 1
	}
	return min(max(1, (len(x.swarm.pieces)/requestsPerNode+nodes/2)/nodes), maxBatch)
}

// pick is the piece that does most for the swarm: one that nobody has, as near to the front as can be.
func (t *Tracker) pick(now time.Duration, x *queuedRequest, taken []int) int {
	w := x.swarm
	if x.node.isStalled(now, t.copyDelay(x)+t.hold(x)) {
		return x.nextWanted(taken)
	}
	if x.node.unreliable {
		return t.pickAgain(now, x, taken)
	}
	for _, p := range x.want {
		if w.isUnseeded(p) || t.copyIsLost(now, w, p, x) {
			return p
		}
	}
	for w.first < len(w.pieces) && !w.isUnseeded(w.first) {
		w.first++
	}
	if w.first < x.limit && w.first <= w.furthest+maxLead && !x.node.have.Has(w.first) {
		return w.first
	}
	if len(x.urgent) == 0 { // nobody waits for it soon: it is not sent again
		return -1
	}
	if p := t.pickAgain(now, x, taken); p >= 0 {
		return p
	}
	if w.first < x.limit && !x.node.have.Has(w.first) && !slices.Contains(taken, w.first) {
		return w.first
	}
	return -1
}

// next is the first piece that is wanted.
func (x *queuedRequest) nextWanted(taken []int) int {
	for _, p := range x.want {
		if !x.node.have.Has(p) && !slices.Contains(taken, p) {
			return p
		}
	}
	return -1
}

// pickAgain is the piece that was sent least often, if it may go out once more.
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
	free := len(t.queue) == 0 && !t.kernelBusy
	if best >= 0 && (free || t.mayCopyAgain(now, x, best)) {
		return best
	}
	return -1
}

// patience is how long the first copy of a piece may take to come round before there is a second.
func (t *Tracker) copyDelay(x *queuedRequest) time.Duration {
	return max(20*time.Millisecond, 16*t.uplink.time(x.size)) + 2*t.announceDelay(t.nodesOf[x.swarm.pack])
}

// again tells whether the next copy of a piece may go out although the uplink is spent. Beyond Copies it takes ever
// longer patience: those that have it may be out of the reach of those that ask, who would wait for ever.
func (t *Tracker) mayCopyAgain(now time.Duration, x *queuedRequest, p int) bool {
	s := x.swarm.pieces[p]
	more := s.copies - t.o.Copies + 1
	if x.node.unreliable { // others have it, and give it
		more = 1
	}
	if more > 0 && t.kernelBusy {
		return false
	}
	return now >= s.last+t.copyDelay(x)<<(extraCopyDoublings*max(0, min(more, 2)))
}

// lost tells whether a piece was sent long ago and no node ever said that it has it.
func (t *Tracker) copyIsLost(now time.Duration, w *swarm, p int, x *queuedRequest) bool {
	return w.pieces[p].held == 0 && now >= w.pieces[p].last+lostCopyFactor*t.copyDelay(x)
}

func (w *swarm) isUnseeded(p int) bool { return w.pieces[p].copies == 0 && w.pieces[p].held == 0 }

// answer says what was granted, and of the rest who has it or is getting it.
func (t *Tracker) answer(now time.Duration, x *queuedRequest, grant []int) Answer {
	if len(grant) == 0 && len(x.want) > 0 {
		x.node.sendAway(now)
	}
	a := Answer{Grant: grant, RetryAfter: t.copyDelay(x), AnnounceDelay: t.announceDelay(t.nodesOf[x.swarm.pack]), Banned: t.bannedSince(x.node)}
	for _, p := range x.want {
		if slices.Contains(grant, p) || x.node.stalled { // who has it is no help to that node
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

// holders are those who have a piece from the server, or are getting it, and may be met.
func (x *queuedRequest) holders(s *pieceState) (out []netip.AddrPort) {
	for _, to := range s.to[:min(s.copies, len(s.to))] {
		if m := x.swarm.members[to]; m != nil && m != x.node && x.node.mayMeet(m) {
			out = append(out, to)
		}
	}
	return out
}

// Named is a piece, which others have or are getting.
type HeldPiece struct {
	Piece int
	Peers []netip.AddrPort // who, if a read waits for it
}

// Busy says whether the uplink is full of something else, such as K: then no piece is sent freely.
func (t *Tracker) Busy(busy bool) { t.kernelBusy = busy }

// Sent says that a transfer from the server that was granted has ended, well or not.
func (t *Tracker) Sent(key string, node netip.AddrPort, piece int) {
	t.uplink.done(key, node, piece)
}

// Begin says that a node has asked for what it was granted.
func (t *Tracker) Begin(now time.Duration, key string, node netip.AddrPort, piece int) {
	t.uplink.begin(now, key, node, piece)
}

// over gives back what was granted to nodes that never fetched it: they are gone, and nobody has it from them.
func (t *Tracker) expireTransfers(now time.Duration) {
	for _, x := range t.uplink.expire(now) {
		if x.swarm == nil { // nobody granted it
			continue
		}
		if s := &x.swarm.pieces[x.piece]; s.held == 0 && s.copies > 0 {
			s.copies--
			x.swarm.first = min(x.swarm.first, x.piece)
		}
	}
}
