package peer

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/swarm"
)

// askedFirst is the query of a request for a demand object before its sender has asked the tracker.
const askedFirst = "first"

// answer is the result of a request for a demand object.
type answer struct {
	ask   swarm.DemandRequest
	names []netip.AddrPort // peers named by the tracker
	wait  time.Duration
	result
}

// getDemand fetches a demand object from the sources that swarm.DemandRead chooses.
func (n *Node) getDemand(ctx context.Context, p Piece) (chunk.Verified, error) {
	if v, ok := n.held(p.ID); ok {
		return v, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer n.yieldToDemand()()
	r := n.beginDemand(p.ID)
	defer n.endDemand(p.ID, r)
	answers := make(chan answer)
	late := time.NewTimer(0)
	defer late.Stop()
	for {
		n.mu.Lock()
		asks, wake := r.Next(n.now())
		n.mu.Unlock()
		for _, a := range asks {
			go func() {
				select {
				case answers <- n.request(ctx, p, a):
				case <-ctx.Done():
				}
			}()
		}
		late.Stop()
		if wake > 0 {
			late.Reset(max(0, wake-n.now()))
		}
		select {
		case a := <-answers:
			if ctx.Err() != nil { // do not blame the source
				return chunk.Verified{}, context.Cause(ctx)
			}
			if n.took(ctx, r, p.ID, a) {
				return a.v, a.err
			}
		case <-late.C:
		case <-ctx.Done():
			return chunk.Verified{}, context.Cause(ctx)
		}
	}
}

// took handles the result of a request, and tells whether the read is over.
func (n *Node) took(ctx context.Context, r *swarm.DemandRead, id chunk.ID, a answer) (over bool) {
	why := swarm.Broken
	if a.err != nil {
		why = failure(a.err)
	}
	if why == swarm.Corrupt && a.ask.Peer.IsValid() {
		n.banCorrupt(ctx, a.ask.Peer, id)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case a.ask.From == swarm.FromTracker:
		r.Answered(a.names, a.wait)
		return false
	case a.err == nil:
		n.demand.put(id, a.v)
		r.Came(a.ask)
		return true
	}
	r.Failed(a.ask, why)
	return a.ask.From == swarm.FromOrigin
}

// request sends one request.
func (n *Node) request(ctx context.Context, p Piece, a swarm.DemandRequest) answer {
	out := answer{ask: a}
	switch a.From {
	case swarm.FromTracker:
		out.names, out.wait = n.whoHas(ctx, p, a.Timeout)
	case swarm.FromOrigin:
		out.v, out.err = n.o.Origin.Get(ctx, chunk.Request{ID: p.ID, Size: p.Size})
	case swarm.FromBootstrap:
		soon, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		out.v, out.err = n.fromPeer(soon, a.Peer, p, 0)
	case swarm.FromRecent:
		src := n.peerSource(a.Peer)
		src.Query = askedFirst
		out.v, out.err = n.from(ctx, a.Peer, src, p, 0)
	case swarm.FromPeer:
		out.v, out.err = n.fromPeer(ctx, a.Peer, p, a.Timeout)
	}
	return out
}

// whoHas asks the tracker which nodes have or will have a demand object, and how long they may take.
func (n *Node) whoHas(
	ctx context.Context,
	p Piece,
	timeout time.Duration,
) (names []netip.AddrPort, wait time.Duration) {
	at := make(chan trackerClient, 1)
	soon, cancel := context.WithTimeout(ctx, timeout) // Run may have ended, and then nothing answers
	defer cancel()
	n.post(soon, func(time.Duration) { at <- n.currentTracker() })
	select {
	case t := <-at:
		var a swarm.DemandReplyMessage
		if t.post(
			soon,
			"loose",
			swarm.DemandMessage{Object: p.ID.Short(), Size: p.Size, Port: swarm.WirePort(n.o.Port)},
			&a,
			timeout,
		) == nil {
			return a.Peers, swarm.Milliseconds(a.Wait, maxSpreadTime)
		}
	case <-soon.Done():
	}
	return nil, 0
}

// maxSpreadTime is the longest time that a tracker can make a read wait for peers.
const maxSpreadTime = 2 * time.Minute

// yieldToDemand pauses fetching ahead until the returned function is called.
func (n *Node) yieldToDemand() (end func()) {
	n.demandReads.Add(1)
	n.Moved()
	return func() {
		n.demandReads.Add(-1)
		n.Moved()
	}
}

// beginDemand begins a read of a demand object. From now on other nodes may wait here for the object.
func (n *Node) beginDemand(id chunk.ID) *swarm.DemandRead {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.arriving[id] == nil {
		n.arriving[id] = make(chan struct{})
	}
	return n.reads.Begin(id, n.sharing.Load())
}

func (n *Node) endDemand(id chunk.ID, r *swarm.DemandRead) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reads.End(r) {
		close(n.arriving[id])
		delete(n.arriving, id)
	}
}

// heldFor returns the object that a client requests, if this node has it in memory. It waits for a demand object that
// this node is fetching.
func (n *Node) heldFor(r *http.Request, id chunk.ID) (chunk.Verified, bool) {
	v, ok := n.held(id)
	if ok {
		return v, ok
	}
	n.mu.Lock()
	arrives := n.arriving[id]
	if arrives == nil || n.closed {
		n.mu.Unlock()
		return n.held(id) // it may have come meanwhile
	}
	w := n.reads.Wait(id, r.URL.RawQuery == askedFirst, higher(r))
	n.mu.Unlock()
	if w == nil {
		return n.held(id) // it may have come meanwhile
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		w.Leave()
	}()
	select {
	case <-arrives:
		return n.held(id)
	case <-r.Context().Done():
		return v, false
	}
}

// higher reports whether the client's address is higher than this node's.
func higher(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && swarm.NodeAddr(r.RemoteAddr, 1).Addr().Compare(own.Addr().Unmap().WithZone("")) > 0
}

// banCorrupt bans a peer that sent wrong bytes, and reports it to the tracker.
func (n *Node) banCorrupt(ctx context.Context, a netip.AddrPort, id chunk.ID) {
	n.o.Observer.Corrupt(a, id)
	n.post(ctx, func(time.Duration) { n.swarm.BanCorrupt(a) })
}

// newDemandReads returns the decisions about demand objects. Its callbacks run with mu held.
func (n *Node) newDemandReads(slow *store.TimeoutFloor) *swarm.DemandReads {
	return swarm.NewDemandReads(
		swarm.DemandOptions{Bootstrap: n.o.BootstrapPeers,
			AnnounceDelay: func() time.Duration { return slow.AtLeast(0) },
			Banned:        func(a netip.Addr) bool { return n.banned[a] }},
	)
}
