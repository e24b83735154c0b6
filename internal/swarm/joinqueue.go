package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Ticket is a place in a queue.
type Ticket int

// joinQueue holds the join requests of one locality, which wait for the same nodes. It is served in order: if a hundred
// nodes shared the link, each of them would wait as long as the last.
type joinQueue struct {
	locality  locality
	waiting   []queuedJoin
	lookAt    time.Duration // when the first request is tried next
	holdUntil time.Duration // no hold ends before this moment
}

// queuedJoin is a join request that waits.
type queuedJoin struct {
	ticket Ticket
	join   JoinRequest
	node   netip.Addr
	until  time.Duration // end of its hold
}

// QueuedJoinReply is the reply to a queued join request.
type QueuedJoinReply struct {
	Ticket Ticket
	JoinReply
}

// joinHold returns how long the tracker keeps a join request open. It is half of the client's own timeout, capped by
// the timeout that a well-behaved client uses at the current announcement delay, so that a client cannot occupy a
// queue slot by claiming a longer one.
func joinHold(timeout, delay time.Duration) time.Duration {
	return max(minJoinHold, min(timeout, JoinTimeout(delay))/2)
}

// BootstrapSize estimates the bytes of the bootstrap files of a pack with so many pieces.
func BootstrapSize(pieces int) int64 { return bootstrapBytes + int64(pieces)*bootstrapPieceBytes }

// QueueJoin queues a join request. StepJoins returns the reply.
func (t *Tracker) QueueJoin(now time.Duration, node netip.Addr, s JoinRequest, timeout time.Duration) Ticket {
	key := localityOf(s.Swarm, s.Location, s.Subnet, s.LocalOnly)
	i := slices.IndexFunc(t.joinQueues, func(l *joinQueue) bool { return l.locality == key })
	if i < 0 {
		i = len(t.joinQueues)
		t.joinQueues = append(t.joinQueues, &joinQueue{locality: key})
	}
	t.queuedJoins++
	until := now + joinHold(timeout, t.AnnounceDelay(s.Swarm, t.queuedJoins))
	ticket := t.ticket()
	t.joinQueues[i].waiting = append(t.joinQueues[i].waiting, queuedJoin{ticket, s, node, until})
	l := t.joinQueues[i]
	if l.holdUntil = min(l.holdUntil, until); len(l.waiting) == 1 {
		l.lookAt, l.holdUntil = now, until
	}
	return ticket
}

// CancelJoin removes a join request whose node is gone.
func (t *Tracker) CancelJoin(x Ticket) {
	for _, l := range t.joinQueues {
		if i := slices.IndexFunc(l.waiting, func(b queuedJoin) bool { return b.ticket == x }); i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			if t.queuedJoins--; i == 0 {
				l.lookAt = 0 // the next one is tried at once
			}
			break
		}
	}
	t.joinQueues = slices.DeleteFunc(t.joinQueues, func(l *joinQueue) bool { return len(l.waiting) == 0 })
}

// StepJoins returns the replies that are due, and when to call it again, 0 when the queues are empty. A request whose
// hold ends gets the reply Again. A node that does not know that field loads the files from the server.
func (t *Tracker) StepJoins(now time.Duration) (replies []QueuedJoinReply, wake time.Duration) {
	for _, l := range t.joinQueues {
		for len(l.waiting) > 0 && now >= l.lookAt {
			b := l.waiting[0]
			a, ok := t.tryJoin(now, b.join, b.node)
			if !ok {
				l.lookAt = now + t.joinRecheck(b.join.Size)
				break
			}
			replies = append(replies, QueuedJoinReply{b.ticket, a})
			l.waiting, l.lookAt = l.waiting[1:], 0
			t.queuedJoins--
		}
		if now >= l.holdUntil {
			replies = append(replies, t.expireJoins(now, l)...)
		}
		if len(l.waiting) > 0 {
			wake = Earlier(wake, min(max(l.lookAt, now+1), l.holdUntil))
		}
	}
	t.joinQueues = slices.DeleteFunc(t.joinQueues, func(l *joinQueue) bool { return len(l.waiting) == 0 })
	return replies, wake
}

// joinRecheck is the pause before a queue is looked at again. A node that sends the files is free after about their
// sending time, so on a fast link joinLook would be too long.
func (t *Tracker) joinRecheck(size int64) time.Duration {
	if t.uplink.rate == 0 {
		return joinLook
	}
	return min(max(time.Millisecond, t.uplink.time(size)), joinLook)
}

// expireJoins replies to the requests whose hold has ended.
func (t *Tracker) expireJoins(now time.Duration, l *joinQueue) (replies []QueuedJoinReply) {
	first := l.waiting[:min(len(l.waiting), 1)]
	if len(first) > 0 && now >= first[0].until {
		l.lookAt = 0
	}
	kept := l.waiting[:0]
	l.holdUntil = now + joinMax
	for _, b := range l.waiting {
		if now < b.until {
			kept, l.holdUntil = append(kept, b), min(l.holdUntil, b.until)
			continue
		}
		replies = append(
			replies,
			QueuedJoinReply{
				b.ticket,
				JoinReply{Again: true, AnnounceDelay: t.AnnounceDelay(b.join.Swarm, t.queuedJoins)},
			},
		)
		t.queuedJoins--
	}
	l.waiting = kept
	return replies
}

// tryJoin returns the reply to a join request, and false when the request must wait.
func (t *Tracker) tryJoin(now time.Duration, join JoinRequest, from netip.Addr) (JoinReply, bool) {
	id, err := chunk.ParseID(join.Swarm)
	key := grant{from, id.Short()}
	_, told := t.grants.all[key]
	join.Counted = err == nil && (told || !t.grants.hasRoom(from))
	peers, wait := t.bootstrap(now, join)
	if err == nil && !wait && !join.Counted { // the server may have to send the map
		t.grants.allow(now, key, granted{PackNode: PackNode{Pack: join.Swarm}, piece: mapPiece})
		t.grants.expire(now)
	}
	return JoinReply{Peers: peers, AnnounceDelay: t.AnnounceDelay(join.Swarm, t.queuedJoins)}, !wait
}

func (t *Tracker) ticket() Ticket {
	t.tickets++
	return t.tickets
}
