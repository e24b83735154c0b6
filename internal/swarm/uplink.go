package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Depth of the uplink's queue: with less it runs idle, with more all pieces share it and come late.
const (
	queueTime      = 2 * time.Millisecond  // of sending
	maxTransfers   = 4                     // pieces at a time, or
	transferWindow = 20 * time.Millisecond // as many as are sent in so long, because requests take their time too
)

// Time after which a grant without a sign of life is over, so that a dead node does not block the others.
const (
	grantTimeoutUnknown = 2 * time.Second // while the rate is not known
	minGrantTimeout     = 100 * time.Millisecond
	grantTimeoutFactor  = 4 * maxTransfers // sending times of a piece
)

// blindAfter is how many grants in a row may end unseen before running transfers are not counted any more: the objects
// are then sent by another server.
const blindAfter = 2 * maxTransfers

// sizeMin is the least size that a node is believed, so that the number of transfers is bounded.
const sizeMin = 512

// boundSize limits the size of an object that a node claims, so that it cannot block the uplink with one request.
func boundSize(size int64) int64 { return min(max(size, sizeMin), chunk.MaxRaw) }

// uplink is the budget of what the server sends: a token bucket, and a count of running transfers. The bucket alone is
// not enough, because the server also sends what it does not see.
type uplink struct {
	rate      int64         // bytes per second; 0: not known
	busyUntil time.Duration // everything that was charged is sent by then
	running   []sending     // oldest first
	unseen    int           // grants in a row that ended unseen
}

// sending is a transfer that was granted.
type sending struct {
	swarm   *swarm
	node    netip.AddrPort
	piece   int
	size    int64
	since   time.Duration // when it was granted, or its node asked for it
	started bool          // its node asked for it: it runs, however slowly
}

// is reports whether it is the transfer of a piece to a node; an ungranted object has no pack.
func (x sending) is(pack string, node netip.AddrPort, piece int) bool {
	return x.node == node && x.piece == piece &&
		(x.swarm == nil && pack == "" || x.swarm != nil && x.swarm.pack == pack)
}

// free reports whether a piece of so many bytes would be sent at once.
func (u *uplink) free(now time.Duration, size int64) bool {
	if u.rate == 0 {
		return len(u.running) < maxTransfers
	}
	return u.busyUntil <= now+max(queueTime, u.time(size)) && (u.blind() || u.active(now) < u.maxActive(size))
}

// expire ends transfers without a sign of life, and returns those that never began.
func (u *uplink) expire(now time.Duration) (lost []sending) {
	kept := u.running[:0]
	for _, x := range u.running {
		switch {
		case now <= u.expires(x):
			kept = append(kept, x)
		case x.started:
		default:
			if u.unseen++; !u.blind() {
				lost = append(lost, x)
			}
		}
	}
	u.running = kept
	return lost
}

// expires is until when a transfer counts. One that began and takes longer goes to a node on a slow link, and uses
// little of this one; one that did not begin is lost.
func (u *uplink) expires(x sending) time.Duration { return x.since + u.grantTimeout(x.size) }

// begin notes that a node asked for a piece that it was granted.
func (u *uplink) begin(now time.Duration, pack string, node netip.AddrPort, piece int) {
	for i, x := range u.running {
		if x.is(pack, node, piece) {
			u.running[i].since, u.running[i].started = now, true
		}
	}
}

// active returns the number of running transfers that count.
func (u *uplink) active(now time.Duration) (n int) {
	for _, x := range u.running {
		if now <= u.expires(x) {
			n++
		}
	}
	return n
}

func (u *uplink) blind() bool { return u.unseen >= blindAfter }

// maxActive is how many transfers may run.
func (u *uplink) maxActive(size int64) int {
	return int(max(maxTransfers, transferWindow/max(1, u.time(size))))
}

// grantTimeout is after how long a grant counts as over.
func (u *uplink) grantTimeout(size int64) time.Duration {
	if u.rate == 0 {
		return grantTimeoutUnknown
	}
	return max(minGrantTimeout, grantTimeoutFactor*u.time(size))
}

// time is how long so many bytes take.
func (u *uplink) time(size int64) time.Duration {
	if u.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / float64(u.rate) * float64(time.Second))
}

// freeAt is when free becomes true if nothing is sent before, 0 when it does not.
func (u *uplink) freeAt(now time.Duration, size int64) (at time.Duration) {
	if u.rate > 0 {
		at = u.busyUntil - max(queueTime, u.time(size))
	}
	if i := u.active(now) - u.maxActive(size); i >= 0 && (u.rate == 0 || !u.blind()) {
		at = max(at, u.activeUntil(now, i)+1)
	}
	return at
}

// activeUntil is the moment until which all but i of the active transfers are.
func (u *uplink) activeUntil(now time.Duration, i int) time.Duration {
	var ends []time.Duration
	for _, x := range u.running {
		if end := u.expires(x); now <= end {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	return ends[i]
}

// start charges and counts a transfer.
func (u *uplink) start(x sending, size int64) {
	u.charge(x.since, size)
	x.size = size
	u.running = append(u.running, x)
}

// charge takes bytes from the budget for what is not counted while it runs.
func (u *uplink) charge(now time.Duration, size int64) {
	if u.rate > 0 {
		u.busyUntil = max(u.busyUntil, now) + u.time(size)
	}
}

// done ends a transfer.
func (u *uplink) done(pack string, node netip.AddrPort, piece int) {
	u.unseen = 0
	if i := slices.IndexFunc(u.running, func(x sending) bool { return x.is(pack, node, piece) }); i >= 0 {
		u.running = slices.Delete(u.running, i, i+1)
	}
}
