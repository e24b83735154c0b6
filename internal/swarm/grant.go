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
	grantAlone = 24 // to one who is alone: it shall not ask all the time,
	// once it has so many: who has none is perhaps the first of many, who all wait behind what it is sent
	aloneLeast = 8
	aloneMost  = 8 << 20                // and no more bytes: it says itself how large its pieces are
	holdLeast  = 100 * time.Millisecond // a question waits so long, or for so many pieces to be sent
	holdSent   = 64                     // but never so long that its node takes the tracker for lost,
	// or for that part of a pack of many pieces: nobody shall be sent away much more often than so
	holdPart   = 15
	asksMost   = 10000 // questions a second that are answered; with more nodes, each waits longer
	lostFactor = 16    // times the patience for a second copy
	restGrows  = 8     // doublings of the patience for copies beyond Copies
	questions  = 50    // that a node shall have about, if it takes no more than
	// pieces for each: simulated, ten nodes are done after 1.17 W/B with so many, 1.08 with two, 1.05 with one
	maxBatch = 4
	lookMost = 64 // questions that are looked at for which there is nothing
	lead     = 32 // pieces that the server runs ahead of what nodes ask for
)

// waiting is a question that waits for room.
type waiting struct {
	swarm *swarm
	node  *member
	want  []int
	soon  []int // those of them whose holders are named
	max   int
	size  int64
	upto  int           // no piece from here on
	most  time.Duration // that its node waits for
	until time.Duration
	gone  bool
}

// Question is an Ask as the tracker gets it.
type Question struct {
	Swarm string
	Node  netip.AddrPort
	Size  int64 // bytes of a usual piece of the pack
	Ask
}

// Reply is an answer to a question that waited.
type Reply struct {
	Swarm string
	Node  netip.AddrPort
	Answer
}

// Ask answers a question. When wait is true the answer comes from Step later; a node has one question at a time, and a
// new one takes the place of the old one. A node that is not in the swarm is not known, and must join.
func (t *Tracker) Ask(now time.Duration, q Question) (a Answer, wait, known bool) {
	w := t.of(q.Swarm, q.Node)
	if w == nil {
		return a, false, false
	}
	m := w.members[q.Node]
	m.seen = now
	w.haves(m, q.Have)
	m.feeds(q.Fed)
	w.leaves(m, q.Left)
	m.idle = len(q.Want) == 0
	want := slices.DeleteFunc(
		slices.Clone(q.Want[:min(len(q.Want), maxWant)]),
		func(p int) bool { return p < 0 || p >= len(w.pieces) },
	)
	x := &waiting{
		swarm: w,
		node:  m,
		want:  want,
		soon:  want[:min(max(q.Soon, 0), len(want))],
		max:   min(max(q.Max, 1), maxGrant),
		size:  believed(q.Size),
		upto:  len(w.pieces),
		most:  holdTime(q.Patience),
	}
	if len(want) == 0 {
		return t.answer(now, x, nil), false, true // it only says that it lives, and what it has
	}
	w.top = max(w.top, slices.Max(want))
	if q.Upto > 0 {
		x.upto = min(x.upto, q.Upto)
	}
	if m.waiting != nil {
		m.waiting.gone = true
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

func (t *Tracker) hold(x *waiting) time.Duration {
	pieces := max(holdSent, len(x.swarm.pieces)/holdPart)
	return min(
		max(holdLeast, t.uplink.time(x.size*int64(pieces)), time.Duration(len(t.queue))*time.Second/asksMost),
		x.most,
	)
}

// Cancel forgets the question of a node that does not wait any longer.
func (t *Tracker) Cancel(key string, node netip.AddrPort) {
	if w := t.of(key, node); w != nil && w.members[node].waiting != nil {
		w.members[node].waiting.gone = true
		w.members[node].waiting = nil
	}
}

// Step returns the answers that are due, and the moment at which it shall be called again, 0 when nobody waits.
func (t *Tracker) Step(now time.Duration) (replies []Reply, wake time.Duration) {
	i, looked := 0, 0
	for ; i < len(t.queue); i++ {
		x := t.queue[i]
		if x.gone {
			continue
		}
		grant := t.grant(now, x)
		if len(grant) == 0 && now < x.until {
			if !t.uplink.free(now, x.size) {
				break
			}
			// Nothing for this one; perhaps there is for those behind it.
			wake = Earlier(wake, x.until)
			if looked++; looked > lookMost || i > lookMost*lookMost {
				break
			}
			if x.node.shunned { // it gets little, and shall not hide who helps the others
				looked--
			}
			continue
		}
		x.gone, x.node.waiting = true, nil
		replies = append(replies, Reply{x.swarm.pack, x.node.addr, t.answer(now, x, grant)})
	}
	t.queue = slices.DeleteFunc(t.queue, func(x *waiting) bool { return x.gone })
	if len(t.queue) > 0 {
		x := t.queue[0]
		wake = Earlier(wake, x.until)
		if at := t.uplink.at(now, x.size); at > now {
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
func (t *Tracker) grant(now time.Duration, x *waiting) []int {
	t.over(now)
	var out []int
	most, alone := x.max, len(x.swarm.all) == 1 &&
		x.node.have.Count() >= aloneLeast // there is nobody to leave room for
	if alone {
		most = int(min(grantAlone, aloneMost/x.size))
	}
	batch := x.batch()
	for len(out) < most && (alone || len(out)%batch > 0 || t.uplink.free(now, x.size)) {
		p := t.pick(now, x, out)
		if p < 0 {
			break
		}
		if !x.node.shunned && !x.node.stranded { // what it has is no help to others
			x.swarm.pieces[p].give(x.node.addr, now)
		}
		t.uplink.spend(sending{swarm: x.swarm, node: x.node.addr, piece: p, since: now}, x.size)
		out = append(out, p)
		if len(t.queue) > 1 && len(out) >= batch { // others wait too
			break
		}
	}
	return out
}

// batch is how many pieces are granted together where others wait as well. One each is quickest, but of a pack of
// many pieces a node in a small crowd would ask for hundreds.
func (x *waiting) batch() int {
	nodes := len(x.swarm.all)
	if x.node.have.Count() < aloneLeast {
		return 1
	}
	return min(max(1, (len(x.swarm.pieces)/questions+nodes/2)/nodes), maxBatch)
}

// pick is the piece that does most for the swarm: one that nobody has, as near to the front as can be.
func (t *Tracker) pick(now time.Duration, x *waiting, taken []int) int {
	w := x.swarm
	if x.node.strand(now, t.patience(x)+t.hold(x)) {
		return x.next(taken)
	}
	if x.node.shunned {
		return t.pickAgain(now, x, taken)
	}
	for _, p := range x.want {
		if w.unseeded(p) || t.lost(now, w, p, x) {
			return p
		}
	}
	for w.first < len(w.pieces) && !w.unseeded(w.first) {
		w.first++
	}
	if w.first < x.upto && w.first <= w.top+lead && !x.node.have.Has(w.first) {
		return w.first
	}
	if len(x.soon) == 0 { // nobody waits for it soon: it is not sent again
		return -1
	}
	if p := t.pickAgain(now, x, taken); p >= 0 {
		return p
	}
	if w.first < x.upto && !x.node.have.Has(w.first) && !slices.Contains(taken, w.first) {
		return w.first
	}
	return -1
}

// next is the first piece that is wanted.
func (x *waiting) next(taken []int) int {
	for _, p := range x.want {
		if !x.node.have.Has(p) && !slices.Contains(taken, p) {
			return p
		}
	}
	return -1
}

// pickAgain is the piece that was sent least often, if it may go out once more.
func (t *Tracker) pickAgain(now time.Duration, x *waiting, taken []int) int {
	w, best := x.swarm, -1
	for _, p := range x.want {
		if x.node.have.Has(p) || slices.Contains(taken, p) || x.node.shunned && w.unseeded(p) {
			continue
		}
		if best < 0 || w.pieces[p].copies < w.pieces[best].copies {
			best = p
		}
	}
	free := len(t.queue) == 0 && !t.busy
	if best >= 0 && (free || t.again(now, x, best)) {
		return best
	}
	return -1
}

// patience is how long the first copy of a piece may take to come round before there is a second.
func (t *Tracker) patience(x *waiting) time.Duration {
	return max(20*time.Millisecond, 16*t.uplink.time(x.size)) + 2*t.late(t.crowds[x.swarm.pack])
}

// again tells whether the next copy of a piece may go out although the uplink is spent. Beyond Copies it takes ever
// longer patience: those that have it may be out of the reach of those that ask, who would wait for ever.
func (t *Tracker) again(now time.Duration, x *waiting, p int) bool {
	s := x.swarm.pieces[p]
	more := s.copies - t.o.Copies + 1
	if x.node.shunned { // others have it, and give it
		more = 1
	}
	if more > 0 && t.busy {
		return false
	}
	return now >= s.last+t.patience(x)<<(restGrows*max(0, min(more, 2)))
}

// lost tells whether a piece was sent long ago and no node ever said that it has it.
func (t *Tracker) lost(now time.Duration, w *swarm, p int, x *waiting) bool {
	return w.pieces[p].held == 0 && now >= w.pieces[p].last+lostFactor*t.patience(x)
}

func (w *swarm) unseeded(p int) bool { return w.pieces[p].copies == 0 && w.pieces[p].held == 0 }

// answer says what was granted, and of the rest who has it or is getting it.
func (t *Tracker) answer(now time.Duration, x *waiting, grant []int) Answer {
	if len(grant) == 0 && len(x.want) > 0 {
		x.node.sendAway(now)
	}
	a := Answer{Grant: grant, Wait: t.patience(x), Late: t.late(t.crowds[x.swarm.pack]), Banned: t.bannedSince(x.node)}
	for _, p := range x.want {
		if slices.Contains(grant, p) || x.node.stranded { // who has it is no help to that node
			continue
		}
		if s := x.swarm.pieces[p]; s.copies > 0 || s.held > 0 {
			n := Named{Piece: p}
			if slices.Contains(x.soon, p) {
				n.Peers = x.holders(&s)
			}
			a.Named = append(a.Named, n)
		}
	}
	return a
}

// holders are those who have a piece from the server, or are getting it, and may be met.
func (x *waiting) holders(s *seeded) (out []netip.AddrPort) {
	for _, to := range s.to[:min(s.copies, len(s.to))] {
		if m := x.swarm.members[to]; m != nil && m != x.node && x.node.mayMeet(m) {
			out = append(out, to)
		}
	}
	return out
}

// Named is a piece, which others have or are getting.
type Named struct {
	Piece int
	Peers []netip.AddrPort // who, if a read waits for it
}

// Busy says whether the uplink is full of something else, such as K: then no piece is sent freely.
func (t *Tracker) Busy(busy bool) { t.busy = busy }

// Sent says that a transfer from the server that was granted has ended, well or not.
func (t *Tracker) Sent(key string, node netip.AddrPort, piece int) {
	t.uplink.sent(key, node, piece)
}

// Begin says that a node has asked for what it was granted.
func (t *Tracker) Begin(now time.Duration, key string, node netip.AddrPort, piece int) {
	t.uplink.begin(now, key, node, piece)
}

// over gives back what was granted to nodes that never fetched it: they are gone, and nobody has it from them.
func (t *Tracker) over(now time.Duration) {
	for _, x := range t.uplink.over(now) {
		if x.swarm == nil { // nobody granted it
			continue
		}
		if s := &x.swarm.pieces[x.piece]; s.held == 0 && s.copies > 0 {
			s.copies--
			x.swarm.first = min(x.swarm.first, x.piece)
		}
	}
}
