package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Depth of the uplink's queue. With a shorter queue the uplink is idle at times. With a longer one all pieces share the
// uplink and arrive late.
const (
	queueTime      = 2 * time.Millisecond  // sending time of the queued bytes
	maxTransfers   = 4                     // pieces in transfer at a time, or
	transferWindow = 20 * time.Millisecond // as many as are sent in this time, which covers the delay of requests
)

// Time after which a grant that its node does not use is over, so that a dead node does not block the others.
const (
	grantTimeoutUnknown = 2 * time.Second // while the uplink's rate is unknown
	minGrantTimeout     = 100 * time.Millisecond
	grantTimeoutFactor  = 4 * maxTransfers // in sending times of a piece
)

// blindAfter is how many grants in a row may end unused before running transfers are no longer counted. The nodes then
// get the objects from another server.
const blindAfter = 2 * maxTransfers

// sizeMin is the smallest object size that the tracker believes, so that the number of transfers is bounded.
const sizeMin = 512

// boundSize limits the object size that a node claims, so that one request cannot block the uplink.
func boundSize(size int64) int64 { return min(max(size, sizeMin), chunk.MaxRaw) }

// uplink is the budget of what the server sends: a token bucket, and a count of running transfers. The bucket alone is
// not enough, because the server also sends bytes that it does not charge.
type uplink struct {
	rate      int64         // bytes per second; 0: not known
	busyUntil time.Duration // when all charged bytes are sent
	running   []sending     // oldest first
	unseen    int           // grants in a row that ended unused
}

// sending is a transfer that was granted.
type sending struct {
	swarm   *swarm
	node    netip.AddrPort
	piece   int
	size    int64
	since   time.Duration // when it was granted, or when its node requested it
	started bool          // its node has requested it: it runs, however slowly
}

// is reports whether x is the transfer of that piece to that node. An ungranted object has the pack "".
func (x sending) is(pack string, node netip.AddrPort, piece int) bool {
	return x.node == node && x.piece == piece &&
		(x.swarm == nil && pack == "" || x.swarm != nil && x.swarm.pack == pack)
}

// free reports whether a piece of that size would be sent at once.
func (u *uplink) free(now time.Duration, size int64) bool {
	if u.rate == 0 {
		return len(u.running) < maxTransfers
	}
	return u.busyUntil <= now+max(queueTime, u.time(size)) && (u.blind() || u.active(now) < u.maxActive(size))
}

// expire ends transfers whose time is over. It returns those that never began.
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

// expires returns the moment until which a transfer counts. One that runs longer goes to a node on a slow link, and
// uses little of this uplink. One that did not begin is lost.
func (u *uplink) expires(x sending) time.Duration { return x.since + u.grantTimeout(x.size) }

// begin notes that a node has requested a piece that it was granted.
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

// maxActive returns how many transfers of objects of that size may run.
func (u *uplink) maxActive(size int64) int {
	return int(max(maxTransfers, transferWindow/max(1, u.time(size))))
}

// grantTimeout returns the time after which a grant is over.
func (u *uplink) grantTimeout(size int64) time.Duration {
	if u.rate == 0 {
		return grantTimeoutUnknown
	}
	return max(minGrantTimeout, grantTimeoutFactor*u.time(size))
}

// time returns how long the uplink takes to send that number of bytes, 0 if its rate is unknown.
func (u *uplink) time(size int64) time.Duration {
	if u.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / float64(u.rate) * float64(time.Second))
}

// freeAt returns when free becomes true if nothing else is started. 0: the rate is unknown and no transfer has to end.
func (u *uplink) freeAt(now time.Duration, size int64) (at time.Duration) {
	if u.rate > 0 {
		at = u.busyUntil - max(queueTime, u.time(size))
	}
	if i := u.active(now) - u.maxActive(size); i >= 0 && (u.rate == 0 || !u.blind()) {
		at = max(at, u.activeUntil(now, i)+1)
	}
	return at
}

// activeUntil returns the moment after which i+1 of the active transfers have ended.
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

// charge takes bytes from the budget, for a transfer that is not counted while it runs.
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
