package peer

import (
	"context"
	"time"

	"pando/internal/chunk"
)

// Get returns an object for a read that waits, as a block device's source does. A piece of the pack comes by way of
// the swarm, before all that is fetched ahead; a loose object from one who has it or fetches it, if the tracker
// names some, and from the origin otherwise. Beside that ctx is done, there is an error only for a piece that is
// not to be had. Run must run.
func (n *Node) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	i, ok := n.index[r.ID]
	if !ok {
		return n.getDemand(ctx, Piece{r.ID, r.Size})
	}
	if s := n.onShelf(); s != nil {
		if v, kept := s.Piece(i); kept {
			return v, nil
		}
	}
	c := make(chan result, 1)
	n.post(ctx, func(now time.Duration) { n.waitForPiece(now, i, c) })
	select {
	case r := <-c:
		return r.v, r.err
	case <-ctx.Done():
		return chunk.Verified{}, context.Cause(ctx)
	}
}
