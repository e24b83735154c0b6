package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Depth of the uplink's queue: with less than this under way, it would run dry; with more, pieces share it and all come
// late.
const (
	queueTime      = 2 * time.Millisecond  // of sending
	maxTransfers   = 4                     // pieces at a time, or
	transferWindow = 20 * time.Millisecond // as many as are sent in so long: requests take their time too
)

// After how long a grant that nothing was heard of counts as over: a node that died shall not keep others waiting.
const (
	grantTimeoutUnknown = 2 * time.Second // where the rate is not known
	grantTimeoutMin     = 100 * time.Millisecond
	grantTimeoutFactor  = 4 * maxTransfers // usual transfers
	// and so many times as long for one that was seen to begin: it shares the link with others
	startedFactor = 8
)

// deafAfter is how many grants in a row may end without a word before the count of those under way means nothing:
// what this tracker grants is then sent by another, such as a second server or a plain web server.
const blindAfter = 2 * maxTransfers

// sizeLeast is the least that an object counts for: of nothing any number could be under way.
const sizeMin = 512

// believed is the size of an object as a node says it, within what objects can have. Who says that it is a terabyte
// shall not keep all others waiting.
func boundSize(size int64) int64 { return min(max(size, sizeMin), chunk.MaxRaw) }

// uplink is the budget of what a server sends: a bucket that fills with its rate. A budget alone would not do: what
// the server sends beside it would pile up, and from then on all pieces would come late. So those under way are
// counted too.
type uplink struct {
	rate            int64         // bytes a second; 0: not known
	busyUntil       time.Duration // everything that was granted is sent by then
	unbudgetedUntil time.Duration // and everything that is sent beside it
	running         []sending     // oldest first
	unseen          int           // grants in a row that ended without a word
}

// sending is a transfer that was granted.
type sending struct {
	swarm   *swarm
	node    netip.AddrPort
	piece   int
	size    int64
	since   time.Duration // it was granted, or its node asked for it
	started bool          // its node asked for it: it is under way, however slow it is
}

// is tells whether it is that of a piece to a node; what nobody granted has no pack.
func (x sending) is(pack string, node netip.AddrPort, piece int) bool {
	return x.node == node && x.piece == piece &&
		(x.swarm == nil && pack == "" || x.swarm != nil && x.swarm.pack == pack)
}

// free tells whether one more piece of so many bytes would be sent at once.
func (u *uplink) free(now time.Duration, size int64) bool {
	if u.rate == 0 {
		return len(u.running) < maxTransfers
	}
	return u.busyUntil <= now+max(queueTime, u.time(size)) && (u.blind() || u.active(now) < u.maxActive(size))
}

// over ends the transfers that nothing was heard of for too long, and returns them if that means that they never began.
func (u *uplink) expire(now time.Duration) (lost []sending) {
	kept := u.running[:0]
	for _, x := range u.running {
		switch {
		case now <= u.expires(x)+max(0, u.unbudgetedUntil-now):
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

// expires is when a transfer counts as over although nobody said so.
func (u *uplink) expires(x sending) time.Duration {
	if x.started {
		return x.since + startedFactor*u.grantTimeout(x.size)
	}
	return x.since + u.grantTimeout(x.size)
}

// aside notes what is sent at once and takes nothing from the budget. It takes the link all the same: what was
// granted comes so much later, and is not lost.
func (u *uplink) addUnbudgeted(now time.Duration, size int64) {
	u.unbudgetedUntil = max(u.unbudgetedUntil, now) + u.time(size)
}

// begin notes that a node asked for what it was granted.
func (u *uplink) begin(now time.Duration, pack string, node netip.AddrPort, piece int) {
	for i, x := range u.running {
		if x.is(pack, node, piece) {
			u.running[i].since, u.running[i].started = now, true
		}
	}
}

// counts is until when a transfer counts among those under way. One that takes longer than all that there may be
// would take together goes to a node on a slow link, or stands behind something else: it takes little of this link,
// and ten such nodes of 200 had it idle for most of a storm.
func (u *uplink) countsUntil(x sending) time.Duration { return x.since + u.grantTimeout(x.size) }

// under is how many transfers are under way that count.
func (u *uplink) active(now time.Duration) (n int) {
	for _, x := range u.running {
		if now <= u.countsUntil(x) {
			n++
		}
	}
	return n
}

func (u *uplink) blind() bool { return u.unseen >= blindAfter }

// most is how many transfers may be under way.
func (u *uplink) maxActive(size int64) int {
	return int(max(maxTransfers, transferWindow/max(1, u.time(size))))
}

// lost is after how long a grant counts as over.
func (u *uplink) grantTimeout(size int64) time.Duration {
	if u.rate == 0 {
		return grantTimeoutUnknown
	}
	return max(grantTimeoutMin, grantTimeoutFactor*u.time(size))
}

// time is how long so many bytes take.
func (u *uplink) time(size int64) time.Duration {
	if u.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / float64(u.rate) * float64(time.Second))
}

// at is the moment at which free becomes true if nothing is sent before, 0 when it does not.
func (u *uplink) freeAt(now time.Duration, size int64) (at time.Duration) {
	if u.rate > 0 {
		at = u.busyUntil - max(queueTime, u.time(size))
	}
	if i := u.active(now) - u.maxActive(size); i >= 0 && (u.rate == 0 || !u.blind()) {
		at = max(at, u.activeUntil(now, i)+1)
	}
	return at
}

// end is the moment until which all but i of the transfers that count now still do.
func (u *uplink) activeUntil(now time.Duration, i int) time.Duration {
	var ends []time.Duration
	for _, x := range u.running {
		if end := u.countsUntil(x); now <= end {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	return ends[i]
}

// spend takes the bytes of a transfer from the budget.
func (u *uplink) start(x sending, size int64) {
	u.charge(x.since, size)
	x.size = size
	u.running = append(u.running, x)
}

// pass takes so many bytes from the budget for what is not counted while it is under way.
func (u *uplink) charge(now time.Duration, size int64) {
	if u.rate > 0 {
		u.busyUntil = max(u.busyUntil, now) + u.time(size)
	}
}

// sent ends a transfer.
func (u *uplink) done(pack string, node netip.AddrPort, piece int) {
	u.unseen = 0
	if i := slices.IndexFunc(u.running, func(x sending) bool { return x.is(pack, node, piece) }); i >= 0 {
		u.running = slices.Delete(u.running, i, i+1)
	}
}
