package peer

import (
	"context"
	"time"

	"pando/internal/chunk"
)

// Get returns an object for a read that waits. A piece of the pack is fetched through the swarm, before all pieces that
// are fetched ahead. A demand object comes from a peer if the tracker names one, else from the origin. Get fails only
// when ctx is done or no source has the object. Run must be running.
func (n *Node) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	i, ok := n.index[r.ID]
	if !ok {
		return n.getDemand(ctx, Piece{r.ID, r.Size})
	}
	if r, known := n.piece(i); known {
		return r.v, r.err
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
