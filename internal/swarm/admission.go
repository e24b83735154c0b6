package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Admission. On a slow uplink, a server that sends everything to all who ask at once sends nothing in time:
// hundreds of transfers share the link, all are given up before they are done, and begin again. So what the tracker
// has not granted stands in line, and comes at the full rate when it is its turn. Who gives up meanwhile leaves the
// line, and costs nothing. On usual links nobody waits, unless nodes of a swarm wait for what goes round: ten that
// are in none, such as those that are banned, each with a few transfers, would else have nearly all of the link.
const (
	admitQuick = 20 * time.Millisecond // what is sent in less does not wait, while nobody else does
	admitSoon  = openMost              // times what it takes to send, after which that goes out when others do
	admitAhead = openMost              // usual pieces that are under way when what is small still goes out
	// times what it takes to send, after which the first in line goes out although granted pieces fill the uplink
	admitLong  = 4 * openMost
	admitPiece = 64 << 10 // bytes of a usual piece
)

// body decides about a transfer to a node that nobody granted, and that has been the first in line for so long:
// after 0 it goes out now; else it is to be asked about again so much later. counts: it is under way then, and
// BodySent ends it. Questions come first, as what they are granted goes round.
func (t *Tracker) body(
	now time.Duration,
	node netip.Addr,
	size int64,
	waited time.Duration,
) (after time.Duration, counts bool) {
	u := &t.uplink
	takes, long := u.time(size), time.Duration(admitLong)
	if takes < admitQuick {
		if len(t.queue) == 0 {
			u.aside(now, size)
			return 0, false
		}
		long = admitSoon
	}
	t.over(now)
	free := u.free(now, size)
	if size <= startSmall {
		free = now >= u.until-admitAhead*u.time(admitPiece)
	}
	if !free && waited < long*takes {
		return min(max(time.Millisecond, takes/4), time.Second), false
	}
	if size <= startSmall {
		u.pass(now, size)
		return 0, false
	}
	u.spend(sending{node: sender(node), piece: bodyPiece, since: now, begun: true}, size)
	return 0, true
}

// bodyPiece stands for an object that nobody granted, among the transfers that are under way; mapPiece for the map
// that a boot starts with.
const (
	bodyPiece = -2
	mapPiece  = -1
)

// sender stands for a node whose port does not matter.
func sender(node netip.Addr) netip.AddrPort { return netip.AddrPortFrom(node, 1) }

// BodySent says that such a transfer has ended, or one of a loose object.
func (t *Tracker) BodySent(node netip.Addr) { t.uplink.sent("", sender(node), bodyPiece) }

// Body is an object that is to be sent to a node.
type Body struct {
	Node   netip.Addr
	Object chunk.Brief
	Size   int64
}

// bodyLine is transfers that nobody granted.
type bodyLine struct {
	bodies []standing
	// since when the first one is that: were it that of standing in line, all of a long one would go out together
	first time.Duration
	look  time.Duration // not before is it looked whether it may go out
}

type standing struct {
	ticket Ticket
	Body
}

// Admit tells whether an object may be sent to a node now. Otherwise it stands in line, small ones in one of their
// own, until StepBodies says so.
func (t *Tracker) Admit(now time.Duration, b Body) (x Ticket, wait bool) {
	if g, allowed := t.grants.all[grant{b.Node, b.Object}]; allowed {
		if g.piece >= 0 {
			t.Begin(now, g.Pack, g.Node, g.piece)
		}
		return 0, false
	}
	if t.uplink.time(b.Size) < admitQuick && len(t.queue) == 0 {
		t.uplink.aside(now, b.Size)
		return 0, false
	}
	l := &t.large
	if b.Size <= startSmall {
		l = &t.small
	}
	x = t.ticket()
	l.bodies = append(l.bodies, standing{x, b})
	if len(l.bodies) == 1 {
		l.first, l.look = now, now
	}
	return x, true
}

// LeaveBody takes an object out of its line: who asked for it is gone.
func (t *Tracker) LeaveBody(now time.Duration, x Ticket) {
	for _, l := range []*bodyLine{&t.small, &t.large} {
		if i := slices.IndexFunc(l.bodies, func(s standing) bool { return s.ticket == x }); i >= 0 {
			l.leave(now, i)
		}
	}
}

func (l *bodyLine) leave(now time.Duration, i int) {
	l.bodies = slices.Delete(l.bodies, i, i+1)
	if i == 0 {
		l.first, l.look = now, now
	}
}

// StepBodies returns what may be sent now of all that stands in line, and the moment at which it shall be called
// again, 0 when there is nothing more. Call Step before.
func (t *Tracker) StepBodies(now time.Duration) (out []Ticket, wake time.Duration) {
	for _, l := range []*bodyLine{&t.small, &t.large} {
		for len(l.bodies) > 0 && now >= l.look {
			b := l.bodies[0]
			after, counts := t.body(now, b.Node, b.Size, now-l.first)
			if after > 0 {
				l.look = now + after
				break
			}
			if counts {
				t.grants.allow(now, grant{b.Node, b.Object}, granted{piece: bodyPiece})
			}
			out = append(out, b.ticket)
			l.leave(now, 0)
		}
		if len(l.bodies) > 0 {
			wake = Earlier(wake, l.look)
		}
	}
	return out, wake
}
