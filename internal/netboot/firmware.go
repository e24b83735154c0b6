package netboot

import "time"

const (
	// filled is the share of its link that a server sends at least while the loads are the limit. If it sends less,
	// the firmware of the nodes is the limit.
	filled = 0.8
	// maxSlowNodes bounds how many times the number of slots grows for slow firmware. A server's link that is slower
	// than configured looks the same, and all nodes must not share it at once.
	maxSlowNodes = 8
	// hush is the longest pause between two sent bytes that counts as slow firmware. A longer one says nothing about
	// firmware: nodes were turned off, or a cable was pulled.
	hush = time.Second
)

// flow is what the server sent to all nodes while all slots were taken.
type flow struct {
	noted time.Time // time of the last request or byte
	took  time.Duration
	bytes int64
	idle  bool // the link was idle at the last check
}

// count records bytes that were sent; 0 when a slot is about to be taken or freed. Time counts from the first byte:
// the first nodes of a storm connect and request at the same moment, while later nodes do so as others load.
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

// learn checks how much of the server's link the nodes use, once one load for each slot was sent. It measures all
// nodes together: how two of them share the link says nothing, and the others use what a stalled node leaves.
func (q *Queue) learn() {
	if q.set.Passed || q.flow.bytes < int64(q.slots)*leastK {
		return // the link is shared with what nodes read
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

// SetNode tells the queue what a node can receive, in bytes a second. The queue forgets what it measured at another
// rate. Nodes that have a slot keep it.
func (q *Queue) SetNode(rate int64) {
	q.set.Node = rate
	q.reset()
}

// SetPassed tells the queue that nodes pass kernel+initrd on.
func (q *Queue) SetPassed() {
	if !q.set.Passed {
		q.set.Passed = true
		q.reset()
	}
}

func (q *Queue) reset() {
	q.links = q.set
	q.slots, q.took, q.flow = q.links.Slots(), q.links.Load(), flow{noted: q.flow.noted}
}

// faster returns a higher estimate of what firmware takes, in bytes a second. While the link is full this cannot be
// measured. So the estimate grows until a node's link is the limit, or the server's link is idle again.
func (q *Queue) faster() int64 { return min(q.set.Node, q.links.Node+q.links.Node/8+1) }

// slower returns the measured rate of firmware, in bytes a second. It is used after two idle checks in a row: in the
// first one, the first booted node may have used the link to read its root from the server.
func (q *Queue) slower(together float64) int64 {
	return min(q.set.Node, max(q.slowest(), int64(together)/int64(q.slots)))
}

// slowest returns the lowest rate that is assumed for firmware, in bytes a second. It follows from maxSlowNodes.
func (q *Queue) slowest() int64 {
	return max(1, min(q.set.Node, 2*q.set.Server/int64(maxSlowNodes*q.set.Slots())))
}

// Rest returns how many bytes at the end of a load need no slot, with the present number of slots: see Links.Rest.
func (q *Queue) Rest() int64 { return q.links.Rest() }
