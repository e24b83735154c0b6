package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Admission of transfers that the tracker has not granted. A slow uplink that is shared by hundreds of transfers
// finishes none of them before its client gives up. So they wait in a queue and are sent one after the other at full
// rate; a client that gives up leaves the queue. On a fast uplink they wait only while piece requests wait, or the
// transfers of a few banned nodes would take most of the link.
const (
	unqueuedTime    = 20 * time.Millisecond // on a faster transfer nothing waits while no request is queued
	admitSoonFactor = maxTransfers          // times the sending time of an object: the longest wait on a fast uplink
	smallAhead      = maxTransfers          // pieces that may be in transfer when a small object is still sent
	// the same on a slow uplink, where granted pieces go first
	admitFactor = 4 * maxTransfers
	usualPiece  = 64 << 10 // assumed bytes of a piece
)

// admit decides about an object that nobody granted and that has been the first of its queue for so long. after is 0
// when it is sent now, else the time until the next look. counts tells whether it occupies the uplink until
// objectDone. Piece requests go first, because pieces are passed on by those who get them.
func (t *Tracker) admit(
	now time.Duration,
	node netip.Addr,
	size int64,
	waiting time.Duration,
) (after time.Duration, counts bool) {
	u := &t.uplink
	takes, long := u.time(size), time.Duration(admitFactor)
	if takes < unqueuedTime {
		if len(t.queue) == 0 {
			return 0, false
		}
		long = admitSoonFactor
	}
	t.expireTransfers(now)
	free := u.free(now, size)
	if size <= smallObject {
		free = now >= u.busyUntil-smallAhead*u.time(usualPiece)
	}
	if !free && waiting < long*takes {
		return min(max(time.Millisecond, takes/4), time.Second), false
	}
	if size <= smallObject {
		u.charge(now, size)
		return 0, false
	}
	u.start(sending{node: sender(node), piece: objectPiece, since: now, started: true}, size)
	return 0, true
}

// Pseudo pieces among the transfers: an object that nobody granted, and the pack map that a joining node fetches.
const (
	objectPiece = -2
	mapPiece    = -1
)

// sender stands for a node whose port does not matter.
func sender(node netip.Addr) netip.AddrPort { return netip.AddrPortFrom(node, 1) }

// objectDone ends the transfer of an ungranted object or of a demand object.
func (t *Tracker) objectDone(node netip.Addr) { t.uplink.done("", sender(node), objectPiece) }

// ObjectRequest is an object that a node asks the server for.
type ObjectRequest struct {
	Node   netip.Addr
	Object chunk.ShortID
	Size   int64
}

// objectQueue holds requests for objects that nobody granted.
type objectQueue struct {
	requests []queuedObject
	// since when the first request is first: measured from its arrival, all of a long queue would become due together
	firstSince time.Duration
	lookAt     time.Duration // the next look at the first request
}

type queuedObject struct {
	ticket Ticket
	ObjectRequest
}

// Admit reports whether an object may be sent to a node now. Otherwise it is queued, until StepObjects returns its
// ticket.
func (t *Tracker) Admit(now time.Duration, b ObjectRequest) (x Ticket, wait bool) {
	if g, allowed := t.grants.all[grant{b.Node, b.Object}]; allowed {
		if g.piece >= 0 {
			t.Begin(now, g.Pack, g.Node, g.piece)
		}
		return 0, false
	}
	if t.uplink.time(b.Size) < unqueuedTime && len(t.queue) == 0 {
		return 0, false
	}
	x = t.ticket()
	l := &t.objects
	l.requests = append(l.requests, queuedObject{x, b})
	if len(l.requests) == 1 {
		l.firstSince, l.lookAt = now, now
	}
	return x, true
}

// CancelObject removes a request whose client is gone.
func (t *Tracker) CancelObject(now time.Duration, x Ticket) {
	l := &t.objects
	if i := slices.IndexFunc(l.requests, func(s queuedObject) bool { return s.ticket == x }); i >= 0 {
		l.remove(now, i)
	}
}

func (l *objectQueue) remove(now time.Duration, i int) {
	l.requests = slices.Delete(l.requests, i, i+1)
	if i == 0 {
		l.firstSince, l.lookAt = now, now
	}
}

// StepObjects returns the tickets of the requests that may be answered now, and when to call it again, 0 when the
// queue is empty. Call Step first: piece requests go first.
func (t *Tracker) StepObjects(now time.Duration) (out []Ticket, wake time.Duration) {
	l := &t.objects
	for len(l.requests) > 0 && now >= l.lookAt {
		b := l.requests[0]
		after, counts := t.admit(now, b.Node, b.Size, now-l.firstSince)
		if after > 0 {
			l.lookAt = now + after
			break
		}
		if counts {
			t.grants.allow(now, grant{b.Node, b.Object}, granted{piece: objectPiece})
		}
		out = append(out, b.ticket)
		l.remove(now, 0)
	}
	if len(l.requests) > 0 {
		wake = l.lookAt
	}
	return out, wake
}
