package peer

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
)

// fetch starts a transfer.
func (n *Node) fetch(f Fetch) {
	ctx, stop := context.WithCancel(n.ctx)
	n.flights[f] = stop
	n.work.Go(func() {
		v, err := n.transfer(ctx, f)
		n.post(n.ctx, func(now time.Duration) {
			defer stop()
			if ctx.Err() != nil { // it was cancelled
				return
			}
			delete(n.flights, f)
			if err == nil {
				n.keep(f.Piece, v)
				n.swarm.Done(now, f)
				return
			}
			why := failure(err)
			if why == Wrong && n.o.Accused != nil {
				n.o.Accused(f.Peer, n.o.Pieces[f.Piece].ID)
			}
			n.swarm.Fail(now, f, why)
		})
	})
}

func (n *Node) transfer(ctx context.Context, f Fetch) (chunk.Verified, error) {
	p := n.o.Pieces[f.Piece]
	if f.Origin() {
		v, err := n.o.Origin.Get(ctx, p.ID, p.Size)
		n.received("origin", v, err)
		return v, err
	}
	return n.fromPeer(ctx, f.Peer, p)
}

// fromPeer makes one attempt at a peer.
func (n *Node) fromPeer(ctx context.Context, a netip.AddrPort, p Piece) (chunk.Verified, error) {
	src := store.HTTP{URL: "http://" + a.String(), Client: n.objects}
	v, err := src.Get(ctx, store.Request{ID: p.ID, Size: p.Size})
	n.received("peer", v, err)
	return v, err
}

func (n *Node) received(source string, v chunk.Verified, err error) {
	if err == nil && n.o.Received != nil {
		n.o.Received(source, len(v.Stored()))
	}
}

func failure(err error) Failure {
	var wrong *chunk.WrongBytesError
	switch {
	case errors.As(err, &wrong):
		return Wrong
	case errors.Is(err, store.ErrBusy):
		return Busy
	case errors.Is(err, store.ErrMissing):
		return Missing
	}
	return Broken
}

// keep takes a piece that came, for reads and for peers.
func (n *Node) keep(piece int, v chunk.Verified) {
	n.mu.Lock()
	if n.pieces[piece].Stored() != nil {
		n.mu.Unlock()
		return
	}
	n.pieces[piece] = v
	n.order = append(n.order, piece)
	close(n.there[piece])
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	if n.o.Got != nil {
		n.o.Got(piece, v)
	}
}
