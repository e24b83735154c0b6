package sim

import (
	"math/bits"
	"time"
)

// kind is the kind of an event.
type kind uint8

// event happens at a moment of virtual time.
type event struct {
	at   time.Duration
	seq  uint64 // events of one moment happen in this order
	kind kind
	a, b int32 // arguments; their meaning depends on kind
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// clock is virtual time: it jumps from one event to the next. Events made with after have a constant delay, so they
// happen in the order in which they are made. They wait in a plain list instead of the queue.
type clock struct {
	now     time.Duration
	seq     uint64
	queue   queue
	delayed []event
	head    int
}

// at makes an event for a moment.
func (c *clock) at(t time.Duration, k kind, a, b int32) {
	c.seq++
	c.queue.put(event{max(t, c.now), c.seq, k, a, b})
}

// after makes an event after a delay, which must be the same in all calls.
func (c *clock) after(delay time.Duration, k kind, a, b int32) {
	c.seq++
	c.delayed = append(c.delayed, event{c.now + delay, c.seq, k, a, b})
}

// next removes and returns the next event. ok is false when there is none.
func (c *clock) next() (e event, ok bool) {
	first, queued := c.queue.first()
	switch waiting := c.head < len(c.delayed); {
	case !waiting && !queued:
		return e, false
	case waiting && (!queued || c.delayed[c.head].before(first)):
		e = c.delayed[c.head]
		if c.head++; c.head > 4096 && c.head*2 > len(c.delayed) {
			c.delayed = c.delayed[:copy(c.delayed, c.delayed[c.head:])]
			c.head = 0
		}
	default:
		e = c.queue.take()
	}
	c.now = e.at
	return e, true
}

// queue is a radix heap. It sorts events by the highest bit in which their moment differs from that of the last event
// taken; no event may be put before that one. An event moves only a few times. Events of one moment keep their order.
type queue struct {
	last   time.Duration
	by     [64][]event
	used   uint64 // which of by have events
	taken  int    // events taken of by[0], which are all of one moment
	lowest event  // the first event, if known
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

// first returns the next event and leaves it in the queue.
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

// take removes and returns the next event. The queue must not be empty.
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

// spread moves the events of the lowest list into lower lists.
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

// link is one direction of a network link: a queue that empties at the link's rate.
type link struct {
	rate  float64 // bytes per second
	until time.Duration
	bytes int64
}

// pass sends bytes and returns the moment when the last one has passed.
func (l *link) pass(now time.Duration, bytes int) time.Duration {
	l.bytes += int64(bytes)
	l.until = max(l.until, now) + time.Duration(float64(bytes)/l.rate*float64(time.Second))
	return l.until
}
