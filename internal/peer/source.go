package peer

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Get returns an object for a read that waits, as a block device's source does. A piece of the pack comes by way of the
// swarm, before all that is fetched ahead; a loose object from one who has it or fetches it, if the tracker names some, and
// from the origin otherwise. Beside that ctx is done, there is an error only for a piece that is not to be had. Run must
// run.
func (n *Node) Get(ctx context.Context, id chunk.ID, size int64) (chunk.Verified, error) {
	i, ok := n.index[id]
	if !ok {
		return n.getLoose(ctx, Piece{id, size})
	}
	if s := n.onShelf(); s != nil {
		if v, kept := s.Piece(i); kept {
			return v, nil
		}
	}
	c := make(chan result, 1)
	n.post(ctx, func(now time.Duration) { n.want(now, i, c) })
	select {
	case r := <-c:
		return r.v, r.err
	case <-ctx.Done():
		return chunk.Verified{}, context.Cause(ctx)
	}
}

// helperTime is how long one who helped this node to start may take for what it reads first. That is small: the index.
const helperTime = time.Second

// fromHelper asks those who gave this node what it started with. A crowd that boots reads the same first, and all at once. One who is late or gone, or
// sends something else, is asked once: a helper is a help when there is nothing to wait for.
func (n *Node) fromHelper(ctx context.Context, p Piece) (chunk.Verified, bool) {
	for _, a := range n.helping() {
		soon, cancel := context.WithTimeout(ctx, n.o.Slow.Least(helperTime))
		v, err := n.fromPeer(soon, a, p, 0)
		cancel()
		if err == nil {
			return v, true
		}
		switch failure(err) {
		case Missing, Busy: // it lives
			continue
		case Wrong:
			n.accuse(ctx, a, p.ID)
		}
		if ctx.Err() == nil {
			n.dismiss(a)
		}
	}
	return chunk.Verified{}, false
}

// accuse has nothing more asked of a peer that sent something else than an object, and the tracker told.
func (n *Node) accuse(ctx context.Context, a netip.AddrPort, id chunk.ID) {
	n.o.Observer.Accused(a, id)
	n.post(ctx, func(time.Duration) { n.swarm.ban(a) })
}

// helping are the helpers that are left.
func (n *Node) helping() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.helpers)
}

func (n *Node) dismiss(a netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.helpers = slices.DeleteFunc(n.helpers, func(b netip.AddrPort) bool { return a == b })
}
