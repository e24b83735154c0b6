package sim

import (
	"slices"

	"pando/internal/swarm"
)

// cargo is the kind of object that a transfer carries.
type cargo uint8

const (
	piece     cargo = iota
	kernelSet       // K
	files           // bootstrap files
	demand          // a demand object
)

// flow is a transfer. It passes two links in quanta, a few of which are under way at a time, like TCP's window.
type flow struct {
	fetch    swarm.Fetch
	to       int32
	from     int32 // a node; below 0: server -1-from
	unsent   int   // bytes
	inFlight int   // bytes
	size     int
	quantum  int
	what     cargo
	live     bool
	admitted bool
	demand   *demandFlow // nil: not a demand object
}

// windowQuanta is how many quanta of a flow are under way at a time: a piece fits into TCP's window.
const windowQuanta = 4

func (f *storm) newFlow(x flow) int32 {
	if n := len(f.free); n > 0 {
		id := f.free[n-1]
		f.free = f.free[:n-1]
		f.flows[id] = x
		return id
	}
	f.flows = append(f.flows, x)
	return int32(len(f.flows) - 1)
}

// fetch starts a transfer to n by sending the request.
func (f *storm) fetch(n *node, x swarm.Fetch) {
	from := int32(-1) - n.home.id
	if !x.Origin() {
		from = index(x.Peer)
	}
	id := f.newFlow(
		flow{fetch: x, to: n.id, from: from, unsent: f.size(), size: f.size(), quantum: f.quantum, live: true},
	)
	n.flows = append(n.flows, id)
	if from >= 0 {
		n.coming++
	}
	f.after(f.Delay, request, id, 0)
}

// requested is a request that arrives at the source of the object.
func (f *storm) requested(id int32) {
	x := &f.flows[id]
	if !x.live {
		f.release(id)
		return
	}
	if x.from < 0 {
		f.askServer(id)
		return
	}
	n := f.nodes[x.from]
	switch {
	case n.dead && f.Faults.Silent && x.what == piece: // no reply comes
		f.detach(id)
		f.release(id)
	case n.dead || n.closed || f.nodes[x.to].alone:
		f.after(f.Delay, refused, id, int32(swarm.Broken))
	case !f.has(n, x):
		if x.what == demand && f.park(n, id) {
			return
		}
		f.after(f.Delay, refused, id, int32(swarm.Missing))
	default:
		f.upload(n, id)
	}
}

// has reports whether a node has the object of a transfer.
func (f *storm) has(n *node, x *flow) bool {
	switch x.what {
	case files:
		return n.files
	case demand:
		return n.objects[x.demand.read.object]
	}
	return n.swarm.Have().Has(x.fetch.Piece)
}

// upload sends an object, if the node has a free upload slot.
func (f *storm) upload(n *node, id int32) {
	if !f.places(n, &f.flows[id]).Start() {
		f.res.Busy++
		f.after(f.Delay, refused, id, int32(swarm.Busy))
		return
	}
	n.sends = append(n.sends, id)
	f.admit(id)
}

// places returns the upload slots of a node for the kind of a transfer.
func (f *storm) places(n *node, x *flow) *swarm.Uploads {
	return n.places.For(x.what == files, x.what == piece, int64(x.size))
}

// admit begins to send an object.
func (f *storm) admit(id int32) {
	f.flows[id].admitted = true
	f.push(id)
}

// push sends quanta while the window has room.
func (f *storm) push(id int32) {
	x := &f.flows[id]
	for x.unsent > 0 && x.inFlight < windowQuanta*x.quantum {
		q := min(x.quantum, x.unsent)
		x.unsent -= q
		x.inFlight += q
		f.at(f.upLink(x).pass(f.now, q), sent, id, int32(q))
	}
}

func (f *storm) upLink(x *flow) *link {
	if x.from < 0 {
		return &f.servers[-1-x.from].up
	}
	return &f.nodes[x.from].up
}

// passed is a quantum that has left the sender.
func (f *storm) passed(id, q int32) {
	x := &f.flows[id]
	if !x.live { // dropped: bytes under way are lost
		f.land(id, int(q))
		return
	}
	if x.what == kernelSet {
		f.kPassed(f.nodes[x.to], int64(q))
	}
	f.at(f.downLink(x).pass(f.now, int(q)), arrived, id, q)
}

// downLink returns the link that limits how fast bytes arrive.
func (f *storm) downLink(x *flow) *link {
	n := f.nodes[x.to]
	if x.what == kernelSet && f.KRate > 0 && n.loader.rate < n.down.rate {
		return &n.loader
	}
	return &n.down
}

// landed is a quantum that has reached the receiver.
func (f *storm) landed(id, q int32) {
	x := &f.flows[id]
	if !x.live {
		f.land(id, int(q))
		return
	}
	x.inFlight -= int(q)
	if x.unsent > 0 {
		f.push(id)
		return
	}
	if x.inFlight > 0 {
		return
	}
	f.complete(id)
}

// land takes a quantum of a dropped flow. After the last one the flow entry is free.
func (f *storm) land(id int32, q int) {
	x := &f.flows[id]
	if x.inFlight -= q; x.inFlight == 0 {
		f.release(id)
	}
}

func (f *storm) release(id int32) { f.free = append(f.free, id) }

// complete ends a transfer that has brought all bytes.
func (f *storm) complete(id int32) {
	x := f.flows[id]
	n := f.nodes[x.to]
	f.detach(id)
	f.release(id)
	switch x.what {
	case kernelSet:
		f.kDone(n)
		return
	case files:
		f.filesCame(n, x)
		return
	case demand:
		f.demandCame(n, x)
		return
	}
	if x.from >= 0 {
		f.res.PeerBytes += int64(x.size)
		if f.nodes[x.from].wrong {
			f.res.Wasted += int64(x.size)
			f.fail(n, x.fetch, swarm.Corrupt)
			return
		}
		if f.nodes[x.from].short {
			f.res.Wasted += int64(x.size)
			f.fail(n, x.fetch, swarm.Broken)
			return
		}
	} else {
		f.res.Pieces++
	}
	had := n.swarm.Missing()
	n.swarm.Done(f.now, x.fetch)
	if n.swarm.Missing() < had {
		f.got(n, x.fetch.Piece)
	}
	f.act(n)
}

// detach removes a flow from both ends.
func (f *storm) detach(id int32) {
	x := &f.flows[id]
	x.live = false
	to := f.nodes[x.to]
	to.flows = slices.DeleteFunc(to.flows, func(i int32) bool { return i == id })
	if x.from >= 0 && x.what == piece {
		to.coming--
	}
	if x.from >= 0 && x.admitted {
		from := f.nodes[x.from]
		f.places(from, x).Done()
		from.sends = slices.DeleteFunc(from.sends, func(i int32) bool { return i == id })
	}
	if x.demand != nil && x.demand.wait != nil {
		x.demand.wait.Leave()
		x.demand.wait = nil
	}
	if x.from < 0 {
		f.servers[-1-x.from].sent(f, to, id)
	}
}

// drop ends a transfer early. A request that is under way finds it dead.
func (f *storm) drop(id int32) {
	x := &f.flows[id]
	f.res.Wasted += int64(x.size - x.unsent)
	over := x.admitted && x.inFlight == 0 || f.isQueued(id) // no bytes are under way
	f.detach(id)
	if over {
		f.release(id)
	}
}

func (f *storm) cancel(n *node, x swarm.Fetch) {
	for _, id := range n.flows {
		if f.flows[id].fetch == x && f.flows[id].what == piece {
			f.drop(id)
			return
		}
	}
}

func (f *storm) refuse(id int32, why swarm.Failure) {
	x := f.flows[id]
	f.release(id)
	if !x.live {
		return
	}
	f.detach(id)
	f.failed(f.nodes[x.to], x, why)
}

// failed handles a transfer that brought no object.
func (f *storm) failed(n *node, x flow, why swarm.Failure) {
	switch x.what {
	case files:
		f.filesFailed(n)
	case demand:
		f.demandFailed(n, x, why)
	default:
		f.fail(n, x.fetch, why)
	}
}

func (f *storm) fail(n *node, x swarm.Fetch, why swarm.Failure) {
	if n.dead {
		return
	}
	n.swarm.Fail(f.now, x, why)
	f.act(n)
}
