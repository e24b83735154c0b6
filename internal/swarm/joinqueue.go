package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Ticket is a place in a line.
type Ticket int

// startLine is where boots of one area stand that wait for what they start with. Those of another wait for other
// nodes, and have a line of their own. The first of them gets what there is: a hundred that all had a part of the
// link would all wait for as long as the last.
type joinQueue struct {
	locality  locality
	waiting   []queuedJoin
	lookAt    time.Duration // not before is it looked whether there is something for the first
	holdUntil time.Duration // no boot has waited for long enough before
}

// startBoot is a boot that waits for what it starts with.
type queuedJoin struct {
	ticket Ticket
	start  JoinRequest
	node   netip.Addr
	until  time.Duration // no longer
}

// QueuedStart is the answer to a boot that stood in line.
type QueuedJoinReply struct {
	Ticket Ticket
	JoinReply
}

// startHoldFor is how long a start is held for a node that waits for so long, where word is so late; 0: it did not
// say. Who says more than a node would where it was told how late word is holds no place in line by that.
func joinHold(patience, late time.Duration) time.Duration {
	return max(joinHoldMin, min(patience, JoinTimeout(late))/2)
}

// StartSize is about how many bytes a boot starts with whose pack has so many pieces: manifest, signature and map.
func BootstrapSize(pieces int) int64 { return bootstrapBytes + int64(pieces)*bootstrapPieceBytes }

// StandStart has a boot stand in the line of its area. StepStarts answers.
func (t *Tracker) QueueJoin(now time.Duration, node netip.Addr, s JoinRequest, patience time.Duration) Ticket {
	key := localityOf(s.Swarm, s.Location, s.Subnet, s.LocalOnly)
	i := slices.IndexFunc(t.joinQueues, func(l *joinQueue) bool { return l.locality == key })
	if i < 0 {
		i = len(t.joinQueues)
		t.joinQueues = append(t.joinQueues, &joinQueue{locality: key})
	}
	t.queuedJoins++
	until := now + joinHold(patience, t.AnnounceDelay(s.Swarm, t.queuedJoins))
	ticket := t.ticket()
	t.joinQueues[i].waiting = append(t.joinQueues[i].waiting, queuedJoin{ticket, s, node, until})
	l := t.joinQueues[i]
	if l.holdUntil = min(l.holdUntil, until); len(l.waiting) == 1 {
		l.lookAt, l.holdUntil = now, until
	}
	return ticket
}

// LeaveStart takes a boot out of its line.
func (t *Tracker) CancelJoin(x Ticket) {
	for _, l := range t.joinQueues {
		if i := slices.IndexFunc(l.waiting, func(b queuedJoin) bool { return b.ticket == x }); i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			if t.queuedJoins--; i == 0 {
				l.lookAt = 0 // the next one's turn is at once
			}
			break
		}
	}
	t.joinQueues = slices.DeleteFunc(t.joinQueues, func(l *joinQueue) bool { return len(l.waiting) == 0 })
}

// StepStarts returns the answers that are due, and the moment at which it shall be called again, 0 when nobody
// waits. A boot for which there was no room, and nobody to name, is told to ask again; one that does not know that
// turns to the server.
func (t *Tracker) StepJoins(now time.Duration) (replies []QueuedJoinReply, wake time.Duration) {
	for _, l := range t.joinQueues {
		for len(l.waiting) > 0 && now >= l.lookAt {
			b := l.waiting[0]
			a, ok := t.tryJoin(now, b.start, b.node)
			if !ok {
				l.lookAt = now + t.joinRecheck(b.start.Size)
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

// startPause is until when it is looked again whether there is something for a boot: a node that gives it to
// another is free after as long as that takes. On a fast link 20 ms are a tenth of a boot.
func (t *Tracker) joinRecheck(size int64) time.Duration {
	if t.uplink.rate == 0 {
		return joinLook
	}
	return min(max(time.Millisecond, t.uplink.time(size)), joinLook)
}

// expireStarts answers the boots of a line that have waited for long enough.
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
			QueuedJoinReply{b.ticket, JoinReply{Again: true, AnnounceDelay: t.AnnounceDelay(b.start.Swarm, t.queuedJoins)}},
		)
		t.queuedJoins--
	}
	l.waiting = kept
	return replies
}

// startNow is the answer to a start if there is one now.
func (t *Tracker) tryJoin(now time.Duration, start JoinRequest, from netip.Addr) (JoinReply, bool) {
	id, err := chunk.ParseID(start.Swarm)
	key := grant{from, id.Brief()}
	_, told := t.grants.all[key]
	start.Counted = err == nil && (told || !t.grants.hasRoom(from))
	peers, wait := t.bootstrap(now, start)
	if err == nil && !wait && !start.Counted { // the server may have to send the map, too
		t.grants.allow(now, key, granted{SwarmNode: SwarmNode{Pack: start.Swarm}, piece: mapPiece})
		t.grants.expire(now)
	}
	return JoinReply{Peers: peers, AnnounceDelay: t.AnnounceDelay(start.Swarm, t.queuedJoins)}, !wait
}

func (t *Tracker) ticket() Ticket {
	t.tickets++
	return t.tickets
}
