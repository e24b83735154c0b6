package peer

import "time"

// Depth of the uplink's queue: with less than this under way, it would run dry; with more, pieces share it and all come
// late.
const (
	burst       = 2 * time.Millisecond // of sending
	unknownMost = 4                    // pieces at a time where the rate is not known
)

// grantLost is after how long a grant that nothing was heard of counts as over.
const grantLost = 2 * time.Second

// uplink is the budget of what a server sends: a bucket that fills with its rate.
type uplink struct {
	rate  int64           // bytes a second; 0: not known
	until time.Duration   // everything that was granted is sent by then
	open  []time.Duration // where the rate is not known: when the grants that are under way were made
}

// free tells whether one more piece of so many bytes would be sent at once.
func (u *uplink) free(now time.Duration, size int64) bool {
	if u.rate > 0 {
		return u.until <= now+max(burst, u.time(size))
	}
	for len(u.open) > 0 && now > u.open[0]+grantLost {
		u.open = u.open[1:]
	}
	return len(u.open) < unknownMost
}

// time is how long so many bytes take.
func (u *uplink) time(size int64) time.Duration {
	if u.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / float64(u.rate) * float64(time.Second))
}

// at is the moment at which free becomes true by itself, 0 when it does not.
func (u *uplink) at(size int64) time.Duration {
	switch {
	case u.rate > 0:
		return u.until - max(burst, u.time(size))
	case len(u.open) > 0:
		return u.open[0] + grantLost + 1
	}
	return 0
}

// spend takes so many bytes from the budget.
func (u *uplink) spend(now time.Duration, size int64) {
	if u.rate > 0 {
		u.until = max(u.until, now) + u.time(size)
	} else {
		u.open = append(u.open, now)
	}
}

// sent ends a transfer.
func (u *uplink) sent() {
	if len(u.open) > 0 {
		u.open = u.open[1:]
	}
}
