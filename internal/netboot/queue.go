package netboot

import (
	"cmp"
	"slices"
	"time"

	"pando/internal/fleet"
)

// How long a Queue waits for a node.
const (
	// A node loses its slot after this time without a request or a byte: it was turned off or unplugged. Firmware needs
	// a second or two between its script, kernel and initramfs.
	silent = 20 * time.Second
	// longest is how long a node may keep a slot, so that one with a broken cable does not block it.
	longest = 2 * time.Minute
	// A slot stays reserved for a waiting node that is overdue by up to this time. A node that was later before gets as
	// much time as it took then, up to mostOverdue.
	overdue     = 3 * time.Second
	mostOverdue = 20 * time.Second
	// lost is how long an overdue node keeps its place: time for some attempts and a DHCP exchange.
	lost = time.Minute
)

// sweepEvery is how often the queue removes nodes that are lost.
const sweepEvery = time.Second

// inVain is how many loads a node waits for other nodes to send it kernel+initrd, before it may have a slot.
const inVain = 3

// maxQueue bounds the nodes that wait. Further nodes are told to request again, and get no place.
const maxQueue = 16384

// Queue decides which nodes load kernel+initrd now. A few nodes at full rate boot soon; if all loaded at once, all
// would take as long as the last one, some longer than their firmware waits. The caller passes the time, which must
// not go back. A Queue is not safe for concurrent use.
type Queue struct {
	set     Links // as configured
	links   Links // Node is what firmware takes of a node's link: see learn
	slots   int
	flow    flow
	loading map[fleet.MAC]*load
	waiting []*waiter // in the order of their first requests; a node keeps its place by requesting again in time
	known   map[fleet.MAC]*waiter
	swept   time.Time
	took    time.Duration // how long a load takes; the latest loads count most
	number  uint64        // of the latest request
}

// load is a node that has a slot, from its script to about the end of its initramfs. A loading node keeps its slot when
// the slots become fewer. There are Links.Slots of them, more while the firmware of nodes is slower than their links.
type load struct {
	number   uint64    // of its latest script
	taken    time.Time // when it got the slot
	lastSeen time.Time // time of the last request or byte
}

// waiter is a node that waits.
type waiter struct {
	mac   fleet.MAC
	first uint64    // number of its first request
	due   time.Time // when it was told to request again
	grace time.Duration
	held  bool // its request is held open

	since  time.Time // of its first request
	others bool      // it is to load from another node
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

// Admission answers a node that requests its script.
type Admission struct {
	Place  int           // in the queue, from 1; 0: it may load now
	Expect time.Duration // until it may load, by the pace of the latest loads
	Sleep  time.Duration // until it should request again; whole seconds, as iPXE's sleep takes them
	// not 0: it may load soon. Its request may be held open for this long instead of a sleep; see Queue.Hold
	Hold time.Duration
}

// Request gives a node a slot or a place. A node that has a slot and requests again keeps it.
func (q *Queue) Request(now time.Time, mac fleet.MAC) Admission { return q.RequestAfter(now, mac, 0) }

// RequestAfter is Request for a node that may load from other nodes: the first `others` waiting nodes get no slot,
// unless they have waited for others in vain.
func (q *Queue) RequestAfter(now time.Time, mac fleet.MAC, others int) Admission {
	q.sweep(now)
	q.number++
	if l := q.loading[mac]; l != nil {
		l.number, l.lastSeen = q.number, now
		return Admission{}
	}
	at := len(q.waiting)
	w := q.known[mac]
	if w != nil {
		at, _ = slices.BinarySearchFunc(q.waiting, w.first, byFirst)
	}
	if w != nil {
		w.others = others > at
	}
	if q.room(now, at) && (at >= others || w != nil && !q.fromNodes(now, w)) {
		if w != nil {
			q.remove(at)
		}
		q.take(now, mac)
		return Admission{}
	}
	t := Admission{Place: at + 1, Expect: q.expect(at + 1)}
	t.Sleep = pause(t.Expect, t.Place <= q.slots)
	if t.Expect <= held && (w != nil || at < maxQueue) {
		t.Hold = held
	}
	if w == nil && at < maxQueue {
		w = &waiter{mac: mac, first: q.number, due: now, since: now, others: others > 0}
		q.waiting, q.known[mac] = append(q.waiting, w), w
	}
	if w != nil {
		w.grace = min(max(w.grace, now.Sub(w.due)+overdue), mostOverdue)
		w.due, w.held = now.Add(t.Sleep), false
	}
	return t
}

func byFirst(w *waiter, first uint64) int { return cmp.Compare(w.first, first) }

// fromNodes reports whether a waiting node is to load from another node, and has not waited for that in vain.
func (q *Queue) fromNodes(now time.Time, w *waiter) bool {
	return w.others && now.Sub(w.since) <= inVain*q.took
}

func (q *Queue) take(now time.Time, mac fleet.MAC) {
	q.count(now, 0)
	q.loading[mac] = &load{number: q.number, taken: now, lastSeen: now}
}

// room reports whether there is a slot for a node that has `behind` waiting nodes before it. A slot stays reserved for
// each of these that is not overdue; an overdue one keeps its place.
func (q *Queue) room(now time.Time, behind int) bool {
	free := q.slots - len(q.loading)
	for _, w := range q.waiting[:behind] {
		if free <= 0 {
			break
		}
		if !now.After(w.due.Add(w.grace)) && !q.fromNodes(now, w) {
			free--
		}
	}
	return free > 0
}

// Begin records the start of a transfer. The number identifies it to SawTransfer and End. It is 0 if the node has no
// slot and none is free: the transfer is not refused, and not counted.
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

// SawTransfer records sent bytes of a transfer. They count for the server's link also if the node has no slot any more.
func (q *Queue) SawTransfer(now time.Time, mac fleet.MAC, number uint64, bytes int64) {
	q.count(now, bytes)
	if l := q.loading[mac]; l != nil && l.number == number {
		l.lastSeen = now
	}
}

// End ends a load: at most Rest of the initramfs is left, or the transfer broke off. It frees the slot, unless the node
// has requested another script since the transfer began.
func (q *Queue) End(now time.Time, mac fleet.MAC, number uint64) {
	if l := q.loading[mac]; l != nil && l.number == number {
		q.free(now, mac, l)
	}
}

// free frees a slot, and updates how long a load takes.
func (q *Queue) free(now time.Time, mac fleet.MAC, l *load) {
	q.count(now, 0)
	delete(q.loading, mac)
	q.took += (now.Sub(l.taken) - q.took) / 8
	q.learn()
}

// sweep frees the slots and places of nodes that are silent for too long.
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

// expect returns how long the node at a place has to wait: as many loads have to end as its place says.
func (q *Queue) expect(place int) time.Duration {
	return q.took * time.Duration(place) / time.Duration(q.slots)
}

// QueueState is the number of nodes that load and wait.
type QueueState struct {
	Slots, Loading, Waiting int           // Loading exceeds Slots for a while when the slots become fewer
	Expect                  time.Duration // until the last waiting node may load
}

// State returns the state of the queue.
func (q *Queue) State(now time.Time) QueueState {
	q.sweep(now)
	return QueueState{
		Slots:   q.slots,
		Loading: len(q.loading),
		Waiting: len(q.waiting),
		Expect:  q.expect(len(q.waiting)),
	}
}
