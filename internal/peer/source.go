package peer

import (
	"context"
	"errors"
	"time"

	"pando/internal/chunk"
)

// Get returns an object for a read that waits, as a block device's source does. A piece of the pack comes by way of the
// swarm, before all that is fetched ahead; a loose object from one who fetched it lately, if the tracker names one, and
// from the origin otherwise. The only error is that ctx is done. Run must run.
func (n *Node) Get(ctx context.Context, id chunk.ID, size int64) (chunk.Verified, error) {
	n.reading(1)
	defer n.reading(-1)
	i, ok := n.index[id]
	if !ok {
		return n.getLoose(ctx, Piece{id, size})
	}
	select {
	case <-n.there[i]:
	default:
		n.post(ctx, func(now time.Duration) { n.swarm.Demand(now, i) })
		select {
		case <-n.there[i]:
		case <-ctx.Done():
			return chunk.Verified{}, context.Cause(ctx)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pieces[i], nil
}

func (n *Node) reading(change int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uploads.Reading(change)
}

// getLoose asks one peer at most, and the origin when that fails or is late. It does not know whether there are peers;
// the tracker does, and where there is none nothing is asked.
func (n *Node) getLoose(ctx context.Context, p Piece) (chunk.Verified, error) {
	if v, ok := n.held(p.ID); ok {
		return v, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		v   chunk.Verified
		err error
	}
	peer := make(chan result, 1)
	if n.o.Tracker != "" && n.o.Port != 0 {
		go func() {
			v, err := n.looseFromPeer(ctx, p)
			peer <- result{v, err}
		}()
	} else {
		peer <- result{err: errNobody}
	}
	late := time.NewTimer(hedgeLeast)
	defer late.Stop()
	select {
	case r := <-peer:
		if r.err == nil {
			return n.keepLoose(p, r.v)
		}
	case <-late.C:
	}
	origin := make(chan result, 1)
	go func() {
		v, err := n.o.Origin.Get(ctx, p.ID, p.Size)
		n.received("origin", v, err)
		origin <- result{v, err}
	}()
	for {
		select {
		case r := <-peer:
			if r.err == nil {
				return n.keepLoose(p, r.v)
			}
		case r := <-origin:
			if r.err != nil {
				return r.v, r.err
			}
			return n.keepLoose(p, r.v)
		}
	}
}

var errNobody = errors.New("no peer is named")

func (n *Node) looseFromPeer(ctx context.Context, p Piece) (chunk.Verified, error) {
	var a looseReply
	if err := n.tracker.post(ctx, "loose", looseMessage{p.ID, p.Size, n.o.Port}, &a, hedgeLeast); err != nil {
		return chunk.Verified{}, err
	}
	for _, from := range a.Peers {
		n.mu.Lock()
		banned := n.banned[from.Addr()]
		n.mu.Unlock()
		if banned {
			continue
		}
		v, err := n.fromPeer(ctx, from, p)
		if err != nil && failure(err) == Wrong {
			if n.o.Accused != nil {
				n.o.Accused(from, p.ID)
			}
			n.post(ctx, func(time.Duration) { n.swarm.ban(from) })
		}
		return v, err
	}
	return chunk.Verified{}, errNobody
}

func (n *Node) keepLoose(p Piece, v chunk.Verified) (chunk.Verified, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loose.put(p.ID, v)
	return v, nil
}

// looseKept is how many bytes of loose objects a node keeps for its peers.
const looseKept = 4 << 20

// looseObjects are those that a node fetched last.
type looseObjects struct {
	objects map[chunk.ID]chunk.Verified
	order   []chunk.ID
	bytes   int
}

func (l *looseObjects) get(id chunk.ID) (chunk.Verified, bool) {
	v, ok := l.objects[id]
	return v, ok
}

func (l *looseObjects) put(id chunk.ID, v chunk.Verified) {
	if _, ok := l.objects[id]; ok {
		return
	}
	if l.objects == nil {
		l.objects = map[chunk.ID]chunk.Verified{}
	}
	l.objects[id] = v
	l.order = append(l.order, id)
	for l.bytes += len(v.Stored()); l.bytes > looseKept; l.order = l.order[1:] {
		l.bytes -= len(l.objects[l.order[0]].Stored())
		delete(l.objects, l.order[0])
	}
}
