package sim

import (
	"math/bits"
	"time"
)

// kind says what an event is.
type kind uint8

// event is something that happens at a moment.
type event struct {
	at   time.Duration
	seq  uint64 // of two at the same moment, the one that was made first happens first
	kind kind
	a, b int32 // what it is about, by kind
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// clock is virtual time: it jumps from one event to the next. What comes after a delay that is always the same
// waits in a line instead of the queue, since it comes in the order in which it was made.
type clock struct {
	now   time.Duration
	seq   uint64
	queue queue
	line  []event
	head  int
}

// at makes an event for a moment.
func (c *clock) at(t time.Duration, k kind, a, b int32) {
	c.seq++
	c.queue.put(event{max(t, c.now), c.seq, k, a, b})
}

// after makes an event after the delay that is the same for all that are made with after.
func (c *clock) after(delay time.Duration, k kind, a, b int32) {
	c.seq++
	c.line = append(c.line, event{c.now + delay, c.seq, k, a, b})
}

// next takes the next event; ok is false when nothing will happen any more.
func (c *clock) next() (e event, ok bool) {
	first, queued := c.queue.first()
	switch waiting := c.head < len(c.line); {
	case !waiting && !queued:
		return e, false
	case waiting && (!queued || c.line[c.head].before(first)):
		e = c.line[c.head]
		if c.head++; c.head > 4096 && c.head*2 > len(c.line) {
			c.line = c.line[:copy(c.line, c.line[c.head:])]
			c.head = 0
		}
	default:
		e = c.queue.take()
	}
	c.now = e.at
	return e, true
}

// queue is a radix heap: events by the highest bit in which their moments differ from that of the last one that was
// taken, and none is ever put before that. An event moves a few times, with its neighbours, instead of being
// compared with others all over a heap. Events of one moment stay in the order in which they were put.
type queue struct {
	last   time.Duration
	by     [64][]event
	used   uint64 // which of by have events
	taken  int    // of by[0], all of one moment
	lowest event  // the first of all, where known
	known  bool
}

func (q *queue) put(e event) {
	i := bits.Len64(uint64(e.at ^ q.last))
	q.by[i] = append(q.by[i], e)
	q.used |= 1 << i
	if q.known && e.before(q.lowest) {
		q.lowest = e
	}
}

// first is the next event, which stays.
func (q *queue) first() (e event, ok bool) {
	switch {
	case q.used == 0:
		return e, false
	case q.known:
	case q.used&1 != 0:
		q.lowest, q.known = q.by[0][q.taken], true
	default:
		all := q.by[bits.TrailingZeros64(q.used)]
		q.lowest, q.known = all[0], true
		for _, e := range all[1:] {
			if e.at < q.lowest.at {
				q.lowest = e
			}
		}
	}
	return q.lowest, true
}

// take takes the next event; there is one.
func (q *queue) take() event {
	if q.used&1 == 0 {
		q.spread()
	}
	e := q.by[0][q.taken]
	q.known = false
	if q.taken++; q.taken == len(q.by[0]) {
		q.by[0], q.taken = q.by[0][:0], 0
		q.used &^= 1
	}
	return e
}

// spread puts the events that come next into the lists below theirs.
func (q *queue) spread() {
	first, _ := q.first()
	q.last = first.at
	i := bits.TrailingZeros64(q.used)
	all := q.by[i]
	q.by[i] = all[:0]
	q.used &^= 1 << i
	for _, e := range all {
		low := bits.Len64(uint64(e.at ^ q.last))
		q.by[low] = append(q.by[low], e)
		q.used |= 1 << low
	}
}

// link is one direction of a network link: a queue that empties at its rate, which is how a token bucket shares it.
type link struct {
	rate  float64 // bytes a second
	until time.Duration
	bytes int64
}

// pass sends bytes and returns when the last one is through.
func (l *link) pass(now time.Duration, bytes int) time.Duration {
	l.bytes += int64(bytes)
	l.until = max(l.until, now) + time.Duration(float64(bytes)/l.rate*float64(time.Second))
	return l.until
}
