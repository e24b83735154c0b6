package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Admission of transfers that the tracker has not granted. Hundreds of transfers that share a slow uplink all time out.
// So they wait in a queue, and are sent one after the other at full rate. On a fast uplink they wait only while piece
// requests wait, so that a few banned nodes cannot take most of the link.
const (
	unqueuedTime    = 20 * time.Millisecond // a faster transfer waits only while piece requests are queued
	admitSoonFactor = maxTransfers          // longest wait on a fast uplink, in sending times of the object
	smallAhead      = maxTransfers          // a small object is sent while no more pieces than this are in transfer
	// The same as admitSoonFactor for a slow uplink, where granted pieces go first.
	admitFactor = 4 * maxTransfers
	usualPiece  = 64 << 10 // assumed bytes of a piece
)

// admit decides whether an ungranted object is sent now. waiting is how long it has been first in its queue. after is 0
// to send now, else the time until the next try. counts tells whether it uses the uplink until objectDone. Piece
// requests go first, because their nodes pass the pieces on.
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

// Pseudo pieces among the transfers: an ungranted object, and the pack map that a joining node fetches.
const (
	objectPiece = -2
	mapPiece    = -1
)

// sender returns a key for a node whose port does not matter.
func sender(node netip.Addr) netip.AddrPort { return netip.AddrPortFrom(node, 1) }

// objectDone ends the transfer of an ungranted object or of a demand object.
func (t *Tracker) objectDone(node netip.Addr) { t.uplink.done("", sender(node), objectPiece) }

// ObjectRequest is a node's request to the server for an object.
type ObjectRequest struct {
	Node   netip.Addr
	Object chunk.ShortID
	Size   int64
}

// objectQueue holds requests for ungranted objects.
type objectQueue struct {
	requests []queuedObject
	// When the first request became the first. Measured from their arrival, all requests of a long queue would become
	// due together.
	firstSince time.Duration
	lookAt     time.Duration // when the first request is tried next
}

type queuedObject struct {
	ticket Ticket
	ObjectRequest
}

// Admit decides whether an object may be sent to a node now. If wait is true, the request is queued until StepObjects
// returns its ticket.
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

// StepObjects returns the tickets of the requests that are admitted now, and when to call it again, 0 when the queue is
// empty. Call Step first, because piece requests go first.
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
