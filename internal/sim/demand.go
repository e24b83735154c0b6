package sim

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// read is a read of a demand object.
type read struct {
	*swarm.DemandRead
	object int
}

// demandFlow is the purpose of a transfer of a demand object.
type demandFlow struct {
	read  *read
	ask   swarm.DemandRequest
	since time.Duration        // when the request was sent
	wait  *swarm.PendingObject // set while the asked peer fetches the object itself; nil: it does not
}

// names returns the ids of n made-up objects, numbered from from on.
func names(from, n int) (ids []chunk.ID) {
	for i := range n {
		ids = append(ids, chunk.Sum(binary.LittleEndian.AppendUint32(nil, uint32(from+i))))
	}
	return ids
}

// readDemand reads the next demand object, if the boot has reached it. The first demand object is read before all
// pieces, the others between pieces.
func (f *storm) readDemand(n *node) {
	at := n.reads
	if !f.Reads {
		at = f.Pieces - n.swarm.Missing()
	}
	if n.dead || n.reader == nil || n.reading != nil || n.looked >= f.Demand || at < n.looked*f.Pieces/f.Demand {
		return
	}
	n.reading = &read{n.reader.Begin(f.objects[n.looked], !f.Unicast && n.swarm.Sharing()), n.looked}
	n.looked++
	n.swarm.SetDemandReads(f.now, 1)
	f.nextDemand(n)
}

// nextDemand sends the requests that a read of a demand object needs now.
func (f *storm) nextDemand(n *node) {
	if n.dead {
		return
	}
	r := n.reading
	asks, wake := r.Next(f.now)
	for _, a := range asks {
		if a.From == swarm.FromTracker {
			f.deliver(func() { f.find(n, r) })
			continue
		}
		from := int32(-1) - n.home.id
		if a.Peer.IsValid() {
			from = index(a.Peer)
		}
		size := int(f.DemandSize)
		id := f.newFlow(
			flow{
				what:    demand,
				demand:  &demandFlow{read: r, ask: a, since: f.now},
				to:      n.id,
				from:    from,
				unsent:  size,
				size:    size,
				quantum: f.quantum,
				live:    true,
			},
		)
		n.flows = append(n.flows, id)
		f.after(f.Delay, request, id, 0)
		if a.From == swarm.FromBootstrap {
			f.at(f.now+a.Timeout, bootstrapLate, id, n.id)
		}
	}
	if wake > 0 {
		f.at(wake, demandWake, n.id, int32(r.object))
	}
}

// bootstrapTimeout ends a request to a bootstrap peer whose time is over, unless the flow is used for another request.
func (f *storm) bootstrapTimeout(id, node int32) {
	x := f.flows[id]
	n := f.nodes[node]
	if !x.live || x.demand == nil || x.to != node || x.demand.ask.From != swarm.FromBootstrap ||
		f.now < x.demand.since+x.demand.ask.Timeout {
		return
	}
	f.drop(id)
	f.demandFailed(n, x, swarm.Broken)
}

// find is a demand request that arrives at the tracker.
func (f *storm) find(n *node, r *read) {
	s := n.home
	var names []netip.AddrPort
	var wait time.Duration
	if !s.lost {
		id := f.objects[r.object].Short()
		names, wait = s.tracker.FindDemand(f.now, id, n.addr, f.DemandSize)
		f.res.Finds++
		f.count(swarm.DemandBytes(id, n.addr, f.DemandSize, names, wait))
	}
	f.deliver(func() {
		if n.reading == r {
			r.Answered(names, wait)
			f.nextDemand(n)
		}
	})
}

// park lets a request wait while the asked node fetches the object itself. It returns false when the request may not
// wait.
func (f *storm) park(n *node, id int32) bool {
	x := &f.flows[id]
	higher := f.nodes[x.to].addr.Compare(n.addr) > 0
	if n.reader == nil {
		return false
	}
	first := x.demand.ask.From == swarm.FromRecent
	if x.demand.wait = n.reader.Wait(f.objects[x.demand.read.object], first, higher); x.demand.wait == nil {
		return false
	}
	n.parked = append(n.parked, id)
	return true
}

// demandCame handles a demand object that has arrived.
func (f *storm) demandCame(n *node, x flow) {
	if x.from >= 0 {
		f.res.PeerBytes += int64(x.size)
		switch {
		case f.nodes[x.from].wrong:
			f.res.Wasted += int64(x.size)
			n.swarm.BanCorrupt(f.nodes[x.from].addr)
			f.demandFailed(n, x, swarm.Corrupt)
			f.act(n)
			return
		case f.nodes[x.from].short:
			f.res.Wasted += int64(x.size)
			f.demandFailed(n, x, swarm.Broken)
			return
		}
	}
	if n.reading != x.demand.read {
		return
	}
	r := x.demand.read
	r.Came(x.demand.ask)
	n.objects[r.object] = true
	n.reading = nil
	n.swarm.SetDemandReads(f.now, 0)
	for _, id := range slices.Clone(n.flows) { // cancel the other requests of this read
		if of := f.flows[id].demand; of != nil && of.read == r {
			f.drop(id)
		}
	}
	if n.reader.End(r.DemandRead) {
		f.unpark(n)
	}
	f.finish(n)
	f.act(n)
}

// unpark answers the requests that waited here for an object that this node now has.
func (f *storm) unpark(n *node) {
	parked := n.parked
	n.parked = nil
	for _, id := range parked {
		x := &f.flows[id]
		switch {
		case !x.live:
			f.release(id)
		case f.has(n, x):
			f.upload(n, id)
		default:
			n.parked = append(n.parked, id)
		}
	}
}

func (f *storm) demandFailed(n *node, x flow, why swarm.Failure) {
	if n.dead || n.reading != x.demand.read {
		return
	}
	x.demand.read.Failed(x.demand.ask, why)
	f.nextDemand(n)
}
