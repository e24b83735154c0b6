package sim

import "time"

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

// clock is virtual time: it jumps from one event to the next. What comes after a delay that is always the same waits in a
// line instead of the heap, since it comes in the order in which it was made.
type clock struct {
	now  time.Duration
	seq  uint64
	heap []event
	line []event
	head int
}

// at makes an event for a moment.
func (c *clock) at(t time.Duration, k kind, a, b int32) {
	c.seq++
	c.heap = append(c.heap, event{max(t, c.now), c.seq, k, a, b})
	i := len(c.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !c.heap[i].before(c.heap[parent]) {
			break
		}
		c.heap[i], c.heap[parent] = c.heap[parent], c.heap[i]
		i = parent
	}
}

// after makes an event after the delay that is the same for all that are made with after.
func (c *clock) after(delay time.Duration, k kind, a, b int32) {
	c.seq++
	c.line = append(c.line, event{c.now + delay, c.seq, k, a, b})
}

// next takes the next event; ok is false when nothing will happen any more.
func (c *clock) next() (e event, ok bool) {
	switch waiting := c.head < len(c.line); {
	case !waiting && len(c.heap) == 0:
		return e, false
	case waiting && (len(c.heap) == 0 || c.line[c.head].before(c.heap[0])):
		e = c.line[c.head]
		if c.head++; c.head > 4096 && c.head*2 > len(c.line) {
			c.line = c.line[:copy(c.line, c.line[c.head:])]
			c.head = 0
		}
	default:
		e = c.pop()
	}
	c.now = e.at
	return e, true
}

func (c *clock) pop() event {
	top := c.heap[0]
	last := len(c.heap) - 1
	e := c.heap[last]
	c.heap = c.heap[:last]
	i := 0
	for {
		least := 4*i + 1
		if least >= last {
			break
		}
		for j := least + 1; j < min(4*i+5, last); j++ {
			if c.heap[j].before(c.heap[least]) {
				least = j
			}
		}
		if !c.heap[least].before(e) {
			break
		}
		c.heap[i] = c.heap[least]
		i = least
	}
	if last > 0 {
		c.heap[i] = e
	}
	return top
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
