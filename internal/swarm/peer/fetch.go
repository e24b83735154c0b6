package peer

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/swarm"
)

// fetch starts a transfer.
func (n *Node) fetch(f swarm.Fetch) {
	ctx, stop := context.WithCancel(n.ctx)
	n.transfers[f] = stop
	n.work.Go(func() {
		v, err := n.transfer(ctx, f)
		n.post(n.ctx, func(now time.Duration) {
			defer stop()
			if ctx.Err() != nil { // cancelled
				return
			}
			delete(n.transfers, f)
			n.ended(now, f, v, err)
		})
	})
}

// ended handles the result of a transfer.
func (n *Node) ended(now time.Duration, f swarm.Fetch, v chunk.Verified, err error) {
	switch {
	case err == nil:
		n.swarm.Done(now, f)
		if !n.o.Store.Put(f.Piece, v, false) {
			n.swarm.Remove(f.Piece)
		}
		n.answer(f.Piece, result{v: v})
	case f.Origin():
		n.swarm.Fail(now, f, swarm.Missing)
		n.swarm.GiveUp(f.Piece)
		n.o.Store.Lose(f.Piece, err)
		n.answer(f.Piece, result{err: err})
	default:
		why := failure(err)
		if why == swarm.Corrupt {
			n.o.Observer.Corrupt(f.Peer, n.o.Pieces[f.Piece].ID)
		}
		n.swarm.Fail(now, f, why)
	}
}

// transfer runs one transfer.
func (n *Node) transfer(ctx context.Context, f swarm.Fetch) (chunk.Verified, error) {
	p := n.o.Pieces[f.Piece]
	from := n.o.Origin
	if !f.Origin() {
		from = chunk.SourceFunc(func(ctx context.Context, _ chunk.Request) (chunk.Verified, error) {
			return n.fromPeer(ctx, f.Peer, p, 0)
		})
	}
	if n.o.Cached != nil {
		from = n.o.Cached(from)
	}
	return from.Get(ctx, chunk.Request{ID: p.ID, Size: p.Size, Optional: true})
}

// byteTime is how long a peer may take for the next byte when the announce delay is short.
const byteTime = 10 * time.Second

// fromPeer makes one attempt at a peer. The peer may be silent for timeout or the usual limit, whichever is longer.
func (n *Node) fromPeer(
	ctx context.Context,
	a netip.AddrPort,
	p Piece,
	timeout time.Duration,
) (chunk.Verified, error) {
	src := n.peerSource(a)
	_, src.ShortNames = n.index[p.ID]
	return n.from(ctx, a, src, p, timeout)
}

func (n *Node) peerSource(a netip.AddrPort) store.HTTP {
	return store.HTTP{URL: "http://" + a.String(), Client: n.objects, Proofs: n.o.Proofs}
}

func (n *Node) from(
	ctx context.Context,
	a netip.AddrPort,
	src store.HTTP,
	p Piece,
	timeout time.Duration,
) (chunk.Verified, error) {
	v, err := src.Get(ctx, chunk.Request{ID: p.ID, Size: p.Size, Patience: max(timeout, n.o.Slow.AtLeast(byteTime))})
	if err == nil {
		n.o.Observer.Received(a, len(v.Stored()))
	}
	return v, err
}

func failure(err error) swarm.Failure {
	var wrong *chunk.WrongBytesError
	switch {
	case errors.As(err, &wrong):
		return swarm.Corrupt
	case errors.Is(err, store.ErrBusy):
		return swarm.Busy
	case errors.Is(err, store.ErrMissing):
		return swarm.Missing
	}
	return swarm.Broken
}
