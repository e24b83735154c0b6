package netboot

import "time"

const (
	// filled is the share of its link that a server sends at least when loads, and not the firmware of nodes, are
	// at their limit.
	filled = 0.8
	// maxSlowNodes is how many times as many nodes as by the links load at the same time at most, however slow firmware
	// seems to be: a server's link that is slower than it is said to be looks the same, and must not be shared by
	// all.
	maxSlowNodes = 8
	// hush is after how long without a byte the silence says nothing of firmware: nodes are turned off, or a cable
	// is pulled.
	hush = time.Second
)

// flow is what left for all nodes while all slots were taken.
type flow struct {
	noted time.Time // last word or byte
	took  time.Duration
	bytes int64
	idle  bool // the link was, when this was looked at last
}

// count notes bytes that left, or none when a slot is about to be taken or freed. Time counts from the first byte
// on: the first nodes of a storm connect and ask at the same moment, which later ones do while others load.
func (q *Queue) count(now time.Time, bytes int64) {
	took := now.Sub(q.flow.noted)
	q.flow.noted = now
	if len(q.loading) < q.slots || took > hush {
		return
	}
	if q.flow.bytes > 0 {
		q.flow.took += took
	}
	q.flow.bytes += bytes
}

// learn looks at what nodes take of the server's link, when as much left as one load for each slot has. All are
// looked at together: how two of them share the link says nothing, and who stands still or breaks off leaves it to
// the others.
func (q *Queue) learn() {
	if q.flow.bytes < int64(q.slots)*leastK {
		return
	}
	together := float64(q.flow.bytes) / q.flow.took.Seconds()
	before := q.flow.idle
	q.flow = flow{noted: q.flow.noted, idle: together < filled*float64(q.links.Server)}
	switch {
	case !q.flow.idle:
		q.links.Node = q.faster()
	case before:
		q.links.Node, q.flow.idle = q.slower(together), false
	}
	q.slots = q.links.Slots()
}

// SetNode tells the queue what a node can receive. What was learned with another rate is learned anew; who has a slot
// keeps it.
func (q *Queue) SetNode(rate int64) {
	q.set.Node = rate
	q.links = q.set
	q.slots, q.took, q.flow = q.links.Slots(), q.links.Load(), flow{noted: q.flow.noted}
}

// faster is what firmware may take in a second where the link is full, and nobody can see it: a little more each
// time, until a node's link is the limit, or the server's is idle again.
func (q *Queue) faster() int64 { return min(q.set.Node, q.links.Node+q.links.Node/8+1) }

// slower is what firmware takes in a second where the link was idle twice: the first time the root may have been on
// it, which the first node that boots has from the server.
func (q *Queue) slower(together float64) int64 {
	return min(q.set.Node, max(q.slowest(), int64(together)/int64(q.slots)))
}

// slowest is what firmware is taken to load at least.
func (q *Queue) slowest() int64 {
	return max(1, min(q.set.Node, 2*q.set.Server/int64(maxSlowNodes*q.set.Slots())))
}

// Rest is how many bytes of a load need no slot any more, with the slots that there are: see Links.Rest.
func (q *Queue) Rest() int64 { return q.links.Rest() }
