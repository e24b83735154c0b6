package netboot

import (
	"slices"
	"time"

	"pando/internal/fleet"
)

// If a node will be admitted within held, its request is held open. iPXE can only sleep whole seconds, and in one
// second a link of 1 Gb/s sends kernel+initrd to eight nodes. iPXE waits two minutes or more for an answer
// (docs/netboot.md).
const held = 2 * time.Second

// Hold records that the request of a waiting node is held open, for most at most: it has no answer yet.
func (q *Queue) Hold(now time.Time, mac fleet.MAC, most time.Duration) {
	if w := q.known[mac]; w != nil {
		w.held, w.due = true, now.Add(most)
	}
}

// Held returns the nodes whose requests are held open, in their order.
func (q *Queue) Held() (held []fleet.MAC) {
	for _, w := range q.waiting {
		if w.held {
			held = append(held, w.mac)
		}
	}
	return held
}

// HasSlot reports whether a node may load now.
func (q *Queue) HasSlot(mac fleet.MAC) bool { return q.loading[mac] != nil }

// Drop removes a waiting node: it loads elsewhere.
func (q *Queue) Drop(mac fleet.MAC) {
	if w := q.known[mac]; w != nil {
		at, _ := slices.BinarySearchFunc(q.waiting, w.first, byFirst)
		q.remove(at)
	}
}

// Leave records that a node's held request has ended.
func (q *Queue) Leave(mac fleet.MAC) {
	if w := q.known[mac]; w != nil {
		w.held = false
	}
}

// Called gives the free slots to the nodes whose requests are held open, in their order, and returns these nodes:
// they may load now. No slot is reserved for a sleeping node; if it is overtaken, it loses the time of one load at
// most.
func (q *Queue) Called(now time.Time) (called []fleet.MAC) {
	q.sweep(now)
	for i := 0; i < len(q.waiting) && len(q.loading) < q.slots; {
		w := q.waiting[i]
		if !w.held || q.fromNodes(now, w) {
			i++
			continue
		}
		q.remove(i)
		q.number++
		q.take(now, w.mac)
		called = append(called, w.mac)
	}
	return called
}

// remove removes a node from the waiting ones.
func (q *Queue) remove(at int) {
	delete(q.known, q.waiting[at].mac)
	q.waiting = slices.Delete(q.waiting, at, at+1)
}
