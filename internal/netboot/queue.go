package netboot

import (
	"cmp"
	"slices"
	"time"

	"pando/internal/fleet"
)

// Bounds of how long a Queue counts on a node.
const (
	// silent is after how long without a word or a byte a node that has a slot loses it: it was turned off, or its
	// cable was pulled. Firmware needs a second or two between its script, kernel and initramfs.
	silent = 20 * time.Second
	// longest is how long a node keeps a slot, however busy it is: one on a broken cable must not hold up the others.
	longest = 2 * time.Minute
	// late is how long after its time a waiting node may come and still have a slot kept free for it; for one that was
	// later, and came, as long as it took then, and mostLate at most.
	late     = 3 * time.Second
	mostLate = 20 * time.Second
	// lost is how long after its time a waiting node keeps its place: time for some tries and a DHCP exchange.
	lost = time.Minute
)

// sweepEvery is how often the queue looks for nodes that do not come any more.
const sweepEvery = time.Second

// maxQueue bounds the nodes that wait. Whoever comes later is told to come again, and has no place.
const maxQueue = 16384

// Queue decides which nodes load K now, and which wait for their turn: serving a few at the full rate lets the
// first boot while the last wait, where serving all at once lets all wait for the end, some of them longer than
// firmware does. A node that may load has a slot, from its script to about the end of its initramfs. There are
// Links.Slots of them, and more while the firmware of nodes takes less than their links; when they become fewer,
// who has one keeps it. Waiting nodes have places in the order in which they asked first, and keep them by asking
// again in time.
//
// A Queue has no clock: moments are the caller's, and must not go back. It is not safe for use by several
// goroutines.
type Queue struct {
	set     Links // as the links are said to be
	links   Links // and with what firmware takes of a node's: see learn
	slots   int
	flow    flow
	loading map[fleet.MAC]*load
	waiting []*waiter // in the order of their first ask
	known   map[fleet.MAC]*waiter
	swept   time.Time
	took    time.Duration // by a load; the latest count most
	number  uint64        // of the latest question
}

// load is a node that has a slot.
type load struct {
	number   uint64    // of its latest script
	taken    time.Time // when it got the slot
	lastSeen time.Time // last word or byte
}

// waiter is a node that waits.
type waiter struct {
	mac   fleet.MAC
	first uint64    // number of its first question
	due   time.Time // when it was told to come again
	grace time.Duration
	held  bool // it is kept on the line
}

// NewQueue returns a queue for a server's link and those of its nodes.
func NewQueue(l Links) *Queue {
	return &Queue{
		set:     l,
		links:   l,
		slots:   l.Slots(),
		took:    l.Load(),
		loading: map[fleet.MAC]*load{},
		known:   map[fleet.MAC]*waiter{},
	}
}

// Turn answers a node that asks for its script.
type Turn struct {
	Place  int           // in the queue, from 1; 0: it may load now
	Expect time.Duration // until it may, by the pace of the latest loads
	Sleep  time.Duration // until it should ask again; whole seconds, as iPXE's sleep takes them
	// not 0: its turn is near. Rather than told to sleep it may be kept on the line for so long: see Queue.Hold
	Hold time.Duration
}

// Ask gives a node a slot or a place. A node that asks again while it has a slot begins anew with the same slot.
func (q *Queue) Ask(now time.Time, mac fleet.MAC) Turn {
	q.sweep(now)
	q.number++
	if l := q.loading[mac]; l != nil {
		l.number, l.lastSeen = q.number, now
		return Turn{}
	}
	at := len(q.waiting)
	w := q.known[mac]
	if w != nil {
		at, _ = slices.BinarySearchFunc(q.waiting, w.first, byFirst)
	}
	if q.room(now, at) {
		if w != nil {
			q.leave(at)
		}
		q.take(now, mac)
		return Turn{}
	}
	t := Turn{Place: at + 1, Expect: q.expect(at + 1)}
	t.Sleep = pause(t.Expect, t.Place <= q.slots)
	if t.Expect <= held && (w != nil || at < maxQueue) {
		t.Hold = held
	}
	if w == nil && at < maxQueue {
		w = &waiter{mac: mac, first: q.number, due: now}
		q.waiting, q.known[mac] = append(q.waiting, w), w
	}
	if w != nil {
		w.grace = min(max(w.grace, now.Sub(w.due)+late), mostLate)
		w.due, w.held = now.Add(t.Sleep), false
	}
	return t
}

func byFirst(w *waiter, first uint64) int { return cmp.Compare(w.first, first) }

func (q *Queue) take(now time.Time, mac fleet.MAC) {
	q.count(now, 0)
	q.loading[mac] = &load{number: q.number, taken: now, lastSeen: now}
}

// room reports whether there is a slot for who stands behind so many that wait: each of them has one kept free. Who is
// late has its place when it comes, and until then holds up nobody.
func (q *Queue) room(now time.Time, behind int) bool {
	free := q.slots - len(q.loading)
	for _, w := range q.waiting[:behind] {
		if free <= 0 {
			break
		}
		if !now.After(w.due.Add(w.grace)) {
			free--
		}
	}
	return free > 0
}

// Begin says that the transfer of a part of K begins. The number is for Heard and End. 0: the node has no slot, nor is
// there a free one; a transfer is never refused, so one that comes after all is not counted.
func (q *Queue) Begin(now time.Time, mac fleet.MAC) uint64 {
	q.sweep(now)
	l := q.loading[mac]
	if l == nil {
		if !q.room(now, len(q.waiting)) {
			return 0
		}
		q.number++
		q.take(now, mac)
		l = q.loading[mac]
	}
	l.lastSeen = now
	return l.number
}

// SawTransfer says that so many bytes of a transfer left. They are on the server's link also when the node has no slot
// any more.
func (q *Queue) SawTransfer(now time.Time, mac fleet.MAC, number uint64, bytes int64) {
	q.count(now, bytes)
	if l := q.loading[mac]; l != nil && l.number == number {
		l.lastSeen = now
	}
}

// End says that a load is over: no more than Rest of the initramfs is still to be sent, or a part was broken off.
// It frees the slot, unless the node has asked for another script since the transfer began.
func (q *Queue) End(now time.Time, mac fleet.MAC, number uint64) {
	if l := q.loading[mac]; l != nil && l.number == number {
		q.free(now, mac, l)
	}
}

// free takes a slot back and learns from it.
func (q *Queue) free(now time.Time, mac fleet.MAC, l *load) {
	q.count(now, 0)
	delete(q.loading, mac)
	q.took += (now.Sub(l.taken) - q.took) / 8
	q.learn()
}

// sweep takes slots and places from those who were not heard of for too long.
func (q *Queue) sweep(now time.Time) {
	for mac, l := range q.loading {
		if now.Sub(l.lastSeen) > silent || now.Sub(l.taken) > longest {
			q.free(now, mac, l)
		}
	}
	if now.Sub(q.swept) < sweepEvery {
		return
	}
	q.swept = now
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		gone := now.Sub(w.due) > lost
		if gone {
			delete(q.known, w.mac)
		}
		return gone
	})
}

// expect is when a place's turn comes: as many loads have to end as the place says.
func (q *Queue) expect(place int) time.Duration {
	return q.took * time.Duration(place) / time.Duration(q.slots)
}

// QueueState is how many nodes load and wait.
type QueueState struct {
	Slots, Loading, Waiting int           // more load than there are slots for a while when these become fewer
	Expect                  time.Duration // until the last one that waits may load
}

// State reports how the queue stands.
func (q *Queue) State(now time.Time) QueueState {
	q.sweep(now)
	return QueueState{
		Slots:   q.slots,
		Loading: len(q.loading),
		Waiting: len(q.waiting),
		Expect:  q.expect(len(q.waiting)),
	}
}
