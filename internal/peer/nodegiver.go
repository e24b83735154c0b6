package peer

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// askedFirst is the query of a question for a loose object from who has not asked the tracker. Nodes that asked each other for what both are getting
// would both wait.
const askedFirst = "first"

// maxGivers is how many of those are asked first that gave this node something lately. Who gave the last object is not always ahead.
const maxGivers = 2

// fromGivers asks the peers that gave this node loose objects lately for the next one, one after the other, when there are any. Boots of a version read about the
// same in about the same order, and who was ahead of this node still is: so a question to the tracker is spared for most of what is in no pack.
func (n *Node) fromGivers(ctx context.Context, p Piece) <-chan result {
	n.mu.Lock()
	givers := slices.DeleteFunc(slices.Clone(n.givers), func(a netip.AddrPort) bool { return n.banned[a.Addr()] })
	n.mu.Unlock()
	if len(givers) == 0 {
		return nil
	}
	c := make(chan result, 1)
	go func() {
		var r result
		for _, a := range givers {
			if r = n.fromGiver(ctx, a, p); r.err == nil || ctx.Err() != nil {
				break
			}
		}
		c <- r
	}()
	return c
}

// fromGiver asks one. Who cannot be reached, breaks off or lies is not asked first again.
func (n *Node) fromGiver(ctx context.Context, giver netip.AddrPort, p Piece) result {
	src := n.peerSource(giver)
	src.Query = askedFirst
	v, err := n.from(ctx, giver, src, p, 0)
	if err == nil {
		n.gave(giver)
		return result{v: v}
	}
	if ctx.Err() == nil {
		switch failure(err) {
		case Wrong:
			n.accuse(ctx, giver, p.ID)
		case Broken:
			n.forgetGiver(giver)
		}
	}
	return result{err: err}
}

// soon is what the givers gave, if they do in the time that an object may take to come round. Afterwards there is nothing more to come if they failed.
func (n *Node) soon(given <-chan result) (r result, ok bool) {
	if given == nil {
		return r, false
	}
	late := time.NewTimer(n.giverTime())
	defer late.Stop()
	select {
	case r = <-given:
		return r, r.err == nil
	case <-late.C:
		n.mu.Lock()
		n.givers = nil // until one of them gives something
		n.mu.Unlock()
		return r, false
	}
}

// giverTime is how long the givers may take. They may be getting the object themselves.
func (n *Node) giverTime() time.Duration { return max(hedgeLeast, 2*n.o.Slow.Least(0)) }

// gave notes who gave a loose object.
func (n *Node) gave(a netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(n.givers, func(b netip.AddrPort) bool { return b == a })
	n.givers = slices.Insert(others, 0, a)[:min(len(others)+1, maxGivers)]
}

// forgetGiver is for one who is gone: a read would wait for him.
func (n *Node) forgetGiver(a netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.givers = slices.DeleteFunc(n.givers, func(b netip.AddrPort) bool { return b == a })
}

// heldFor is what who asks is given: what this node has, or is getting. Of nodes that were asked first and are not sure yet who sends it to them only those wait
// that have the higher address, each for a lower one, so that they do not wait in a circle.
func (n *Node) heldFor(r *http.Request, id chunk.ID) (chunk.Verified, bool) {
	if r.URL.RawQuery != askedFirst || n.isSure(id) || higher(r) {
		return n.heldSoon(r.Context(), id)
	}
	return n.held(id)
}

// isSure tells whether a loose object is on its way for sure.
func (n *Node) isSure(id chunk.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.awaited[id]
	return w != nil && w.sure
}

// higher tells whether who asks has a higher address than who is asked.
func higher(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && asker(r, 1).Addr().Compare(own.Addr().Unmap().WithZone("")) > 0
}
