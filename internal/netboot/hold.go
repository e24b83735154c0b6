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

// Hold says that a node that was told to wait, and may be kept on the line, is: it has not got its answer yet.
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

// Called gives the slots that are free to those who are on the line, in their order, and names them: they may load
// now. Nobody who is not there keeps a slot from them. Who was told to sleep and is overtaken loses as long as one
// load takes at most: it is before all of them, and kept on the line when it comes.
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
