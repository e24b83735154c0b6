package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Demand objects spread as a tree. A requester is told a node that has the object or is fetching it, and is itself
// named to later requesters. A node that is fetching an object lets its requesters wait. So the server sends one copy
// of an object that many nodes read at the same moment.
const (
	maxDemandObjects = 32768           // objects that are remembered
	maxHoldersKept   = 16              // remembered holders of each object
	holderMemory     = 2 * time.Minute // after this time a holder may have dropped the object
	maxNamed         = 3               // how often a node is named first; it sends the object each time
	maxNames         = 3               // names in a reply; the requester asks the first one first
	spreadFactor     = 64              // time to reach all nodes, in sending times of the object
)

// demandHolder is a node that has a demand object, or is fetching it.
type demandHolder struct {
	node  netip.AddrPort
	since time.Duration
	named int
}

// demandObjects remembers which nodes fetched which demand object lately. When there are too many objects, the oldest
// is forgotten.
type demandObjects struct {
	objects map[chunk.ShortID][]demandHolder
	order   []chunk.ShortID
}

// demandHolders returns nodes that have or will have a demand object, and how long they may take. None means that the
// server sends it, because the uplink has room or no node has the object.
func (t *Tracker) demandHolders(
	now time.Duration,
	id chunk.ShortID,
	node netip.AddrPort,
	size int64,
) (names []netip.AddrPort, wait time.Duration) {
	t.expireTransfers(now)
	if t.kernelBusy || !t.uplink.free(now, size) {
		names = t.holdersFor(now, id, node)
	}
	t.demand.add(now, id, node)
	if len(names) > 0 {
		return names, spreadFactor*t.uplink.time(size) + 2*t.announceDelay(t.Nodes())
	}
	return nil, 0
}

// expectObject charges the uplink for a demand object that the server is about to send. objectDone ends the transfer.
func (t *Tracker) expectObject(now time.Duration, node netip.Addr, size int64) {
	t.uplink.start(sending{node: sender(node), piece: objectPiece, since: now}, size)
}

// holdersFor returns the names for a requester. The first one is expected to send the object.
func (t *Tracker) holdersFor(now time.Duration, id chunk.ShortID, node netip.AddrPort) (names []netip.AddrPort) {
	asks, all := t.member(node), t.demand.objects[id]
	for i := range all {
		x := &all[i]
		if x.node == node || x.named >= maxNamed || now > x.since+holderMemory || t.bans.has(x.node.Addr()) {
			continue
		}
		// A node that is in no swarm may be gone, and its locality is not known.
		if has := t.member(x.node); has == nil || asks == nil || !asks.mayMeet(has) {
			continue
		}
		if len(names) == 0 {
			x.named++
		}
		if names = append(names, x.node); len(names) == maxNames {
			break
		}
	}
	return names
}

// add notes that a node will have an object, if there is room.
func (l *demandObjects) add(now time.Duration, id chunk.ShortID, node netip.AddrPort) {
	if !node.IsValid() {
		return
	}
	all, known := l.objects[id]
	if !known {
		l.makeRoom(id)
	}
	useless := func(x demandHolder) bool { return x.named >= maxNamed || now > x.since+holderMemory }
	if slices.ContainsFunc(all, func(x demandHolder) bool { return x.node == node && now <= x.since+holderMemory }) {
		return
	}
	all = slices.DeleteFunc(
		all,
		func(x demandHolder) bool { return x.node == node || len(all) >= maxHoldersKept && useless(x) },
	)
	if len(all) < maxHoldersKept {
		all = append(all, demandHolder{node: node, since: now})
	}
	l.objects[id] = all
}

// makeRoom makes room for one more object.
func (l *demandObjects) makeRoom(id chunk.ShortID) {
	if l.objects == nil {
		l.objects = map[chunk.ShortID][]demandHolder{}
	}
	if len(l.order) >= maxDemandObjects {
		delete(l.objects, l.order[0])
		l.order = l.order[1:]
	}
	l.order = append(l.order, id)
}
