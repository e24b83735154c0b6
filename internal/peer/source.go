package peer

import (
	"context"
	"errors"
	"time"

	"pando/internal/chunk"
)

// Get returns an object for a read that waits, as a block device's source does. A piece of the pack comes by way of the
// swarm, before all that is fetched ahead; a loose object from one who fetched it lately, if the tracker names one, and
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

// getLoose asks one peer at most, and the origin when that fails or is late. A node that is alone asks the origin at
// once; else the tracker says who has it.
func (n *Node) getLoose(ctx context.Context, p Piece) (chunk.Verified, error) {
	if v, ok := n.held(p.ID); ok {
		return v, nil
	}
	if !n.sociable.Load() {
		if v, ok := n.fromHelper(ctx, p); ok {
			return n.keepLoose(v, nil)
		}
		return n.keepLoose(n.o.Origin.Get(ctx, p.ID, p.Size))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	peer := make(chan result, 1)
	go func() {
		v, err := n.looseFromPeer(ctx, p)
		peer <- result{v, err}
	}()
	late := time.NewTimer(n.looseTime())
	defer late.Stop()
	select {
	case r := <-peer:
		if r.err == nil {
			return n.keepLoose(r.v, nil)
		}
		peer = nil
	case <-late.C:
	}
	origin := make(chan result, 1)
	go func() {
		v, err := n.o.Origin.Get(ctx, p.ID, p.Size)
		origin <- result{v, err}
	}()
	for {
		select {
		case r := <-peer:
			if r.err == nil {
				return n.keepLoose(r.v, nil)
			}
		case r := <-origin:
			return n.keepLoose(r.v, r.err)
		}
	}
}

// looseTime is how long a read waits for a peer, and for the tracker, before the origin is asked for a loose object too.
func (n *Node) looseTime() time.Duration { return max(hedgeLeast, n.o.Slow.Least(0)/looseLate) }

// helperTime is how long one who helped this node to start may take for what it reads first. That is small: the index.
const helperTime = time.Second

// fromHelper asks those who gave this node what it started with. A crowd that boots reads the same first, and all at once.
func (n *Node) fromHelper(ctx context.Context, p Piece) (chunk.Verified, bool) {
	for _, a := range n.o.Helpers[:min(len(n.o.Helpers), startNames)] {
		soon, cancel := context.WithTimeout(ctx, n.o.Slow.Least(helperTime))
		v, err := n.fromPeer(soon, a, p)
		cancel()
		if err == nil {
			return v, true
		}
	}
	return chunk.Verified{}, false
}

var errNobody = errors.New("no peer is named")

func (n *Node) looseFromPeer(ctx context.Context, p Piece) (chunk.Verified, error) {
	var a looseReply
	url := make(chan trackerClient, 1)
	n.post(ctx, func(time.Duration) { url <- n.at() })
	var t trackerClient
	select {
	case t = <-url:
	case <-ctx.Done():
		return chunk.Verified{}, context.Cause(ctx)
	}
	if err := t.post(ctx, "loose", looseMessage{p.ID, p.Size, n.o.Port}, &a, n.looseTime()); err != nil {
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
			n.o.Observer.Accused(from, p.ID)
			n.post(ctx, func(time.Duration) { n.swarm.ban(from) })
		}
		return v, err
	}
	return chunk.Verified{}, errNobody
}

func (n *Node) keepLoose(v chunk.Verified, err error) (chunk.Verified, error) {
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.loose.put(v.ID(), v)
	}
	return v, err
}

// looseObjects are those that a node fetched last.
type looseObjects struct {
	most    int // bytes
	objects map[chunk.ID]chunk.Verified
	order   []chunk.ID
	bytes   int
}

func (l *looseObjects) get(id chunk.ID) (chunk.Verified, bool) {
	v, ok := l.objects[id]
	return v, ok
}

func (l *looseObjects) put(id chunk.ID, v chunk.Verified) {
	if _, ok := l.objects[id]; ok || len(v.Stored()) > l.most {
		return
	}
	if l.objects == nil {
		l.objects = map[chunk.ID]chunk.Verified{}
	}
	l.objects[id] = v
	l.order = append(l.order, id)
	for l.bytes += len(v.Stored()); l.bytes > l.most; l.order = l.order[1:] {
		l.bytes -= len(l.objects[l.order[0]].Stored())
		delete(l.objects, l.order[0])
	}
}
