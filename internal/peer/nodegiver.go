package peer

import (
	"context"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// atOnce is the query of a question for a loose object that is not held: it is for who has the object already. Nodes that asked each other for what both
// are getting would both wait.
const atOnce = "now"

// fromGiver asks the peer that gave this node its last loose object for the next one, when there is one. Boots of a version read about the same in about the same
// order, and who was ahead of this node still is: so a question to the tracker, of three hundred bytes, is spared for two of five of what is in no pack (ten desktops in a storm).
func (n *Node) fromGiver(ctx context.Context, p Piece) <-chan result {
	n.mu.Lock()
	giver := n.giver
	if n.banned[giver.Addr()] {
		giver = netip.AddrPort{}
	}
	n.mu.Unlock()
	if !giver.IsValid() {
		return nil
	}
	c := make(chan result, 1)
	go func() {
		src := n.peerSource(giver)
		src.Query = atOnce
		v, err := n.from(ctx, giver, src, p, 0)
		if failure(err) == Wrong {
			n.accuse(ctx, giver, p.ID)
		}
		c <- result{v, err}
	}()
	return c
}

// soon is what the giver gave, if it does within the time of a question to the tracker. Afterwards there is nothing more to come if it failed.
func (n *Node) soon(given <-chan result) (r result, ok bool) {
	if given == nil {
		return r, false
	}
	late := time.NewTimer(n.looseTime())
	defer late.Stop()
	select {
	case r = <-given:
		return r, r.err == nil
	case <-late.C:
		return r, false
	}
}

// gave notes who gave a loose object; the zero address: the server did.
func (n *Node) gave(a netip.AddrPort) {
	n.mu.Lock()
	n.giver = a
	n.mu.Unlock()
}

// heldNow is what somebody who asks is given: what this node has or, unless he has no time, is getting.
func (n *Node) heldNow(ctx context.Context, id chunk.ID, query string) (chunk.Verified, bool) {
	if query == atOnce {
		return n.held(id)
	}
	return n.heldSoon(ctx, id)
}
