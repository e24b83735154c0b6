package netboot

import (
	"slices"
	"time"

	"pando/internal/fleet"
)

// held is how long a node whose turn comes within it is kept on the line. iPXE sleeps whole seconds, in which a
// link of 1 Gb/s sends K to eight nodes: those who are to fill it must not sleep. For an answer iPXE waits for two
// minutes and more (docs/netboot.md).
const held = 2 * time.Second

// Hold records that the request of a waiting node is held open: it has no answer yet.
func (q *Queue) Hold(now time.Time, mac fleet.MAC) {
	if w := q.known[mac]; w != nil {
		w.held, w.due = true, now.Add(held)
	}
}

// Leave says that a node is on the line no more.
func (q *Queue) Leave(mac fleet.MAC) {
	if w := q.known[mac]; w != nil {
		w.held = false
	}
}

// Called gives the free slots to the nodes whose requests are held open, in their order, and returns these nodes: they
// may load now. Nodes that sleep do not keep a slot from them. A sleeping node that is overtaken loses the time of one
// load at most.
func (q *Queue) Called(now time.Time) (called []fleet.MAC) {
	q.sweep(now)
	for i := 0; i < len(q.waiting) && len(q.loading) < q.slots; {
		w := q.waiting[i]
		if !w.held {
			i++
			continue
		}
		q.leave(i)
		q.number++
		q.take(now, w.mac)
		called = append(called, w.mac)
	}
	return called
}

// leave takes a node out of those that wait.
func (q *Queue) leave(at int) {
	delete(q.known, q.waiting[at].mac)
	q.waiting = slices.Delete(q.waiting, at, at+1)
}
