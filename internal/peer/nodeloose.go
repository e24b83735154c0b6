package peer

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// getLoose asks peers if the tracker names some, and the origin when they fail or are late. A node that is alone asks the origin at once.
func (n *Node) getLoose(ctx context.Context, p Piece) (chunk.Verified, error) {
	if v, ok := n.held(p.ID); ok {
		return v, nil
	}
	defer n.awaiting(p.ID)()
	defer n.press()()
	if !n.sociable.Load() {
		if v, ok := n.fromHelper(ctx, p); ok {
			return n.keepLoose(v, nil)
		}
		n.sure(p.ID)
		return n.keepLoose(n.o.Origin.Get(ctx, p.ID, p.Size))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	given := n.fromGivers(ctx, p)
	if r, ok := n.soon(given); ok {
		return n.keepLoose(r.v, nil)
	}
	names, wait := n.whoHas(ctx, p)
	n.sure(p.ID)
	peer, origin := make(chan result, 1), make(chan result, 1)
	go func() { peer <- n.looseFromPeers(ctx, names, p, wait) }()
	late := time.NewTimer(wait)
	defer late.Stop()
	begun := false
	for {
		select {
		case r := <-given: // late, but there
			if r.err == nil {
				return n.keepLoose(r.v, nil)
			}
			given = nil
			continue
		case r := <-peer:
			if r.err == nil {
				return n.keepLoose(r.v, nil)
			}
		case <-late.C:
		case r := <-origin:
			return n.keepLoose(r.v, r.err)
		}
		if !begun {
			begun = true
			go func() {
				v, err := n.o.Origin.Get(ctx, p.ID, p.Size)
				origin <- result{v, err}
			}()
		}
	}
}

// press keeps what is fetched ahead out of the way of a loose object, until the function that it returns is called.
func (n *Node) press() (end func()) {
	n.pressing.Add(1)
	n.Moved()
	return func() {
		n.pressing.Add(-1)
		n.Moved()
	}
}

// looseTime is how long a read waits for the tracker, and for a peer of whom it does not say how long that takes, before the origin is asked for a loose object.
func (n *Node) looseTime() time.Duration { return max(hedgeLeast, n.o.Slow.Least(0)/looseLate) }

// whoHas asks the tracker for a loose object: who has it or will have it, and how long they may take.
func (n *Node) whoHas(ctx context.Context, p Piece) (names []netip.AddrPort, wait time.Duration) {
	url := make(chan trackerClient, 1)
	soon, cancel := context.WithTimeout(ctx, n.looseTime()) // a node that goes down answers no more
	defer cancel()
	n.post(soon, func(time.Duration) { url <- n.at() })
	select {
	case t := <-url:
		var a looseReply
		if t.post(soon, "loose", looseMessage{p.ID.Brief(), p.Size, wirePort(n.o.Port)}, &a, n.looseTime()) == nil {
			names, wait = a.Peers, milliseconds(a.Wait, looseMost)
		}
	case <-soon.Done():
	}
	return names, max(wait, n.looseTime())
}

// looseMost bounds what a tracker can make a read wait for peers.
const looseMost = 2 * time.Minute

var errNobody = errors.New("no peer is named")

// looseFromPeers asks one after the other. Who does not have it yet may be silent for as long as it takes to come round.
func (n *Node) looseFromPeers(ctx context.Context, names []netip.AddrPort, p Piece, patience time.Duration) result {
	last := result{err: errNobody}
	for _, from := range names[:min(len(names), looseNames)] {
		n.mu.Lock()
		banned := n.banned[from.Addr()]
		n.mu.Unlock()
		if banned {
			continue
		}
		v, err := n.fromPeer(ctx, from, p, patience)
		if err == nil {
			n.gave(from)
		}
		if err == nil || ctx.Err() != nil {
			return result{v, err}
		}
		last.err = err
		if failure(err) == Wrong {
			n.accuse(ctx, from, p.ID)
		}
	}
	return last
}

// awaiting notes that a loose object is on its way, so that who asks this node for it waits; the function that it returns ends that.
func (n *Node) awaiting(id chunk.ID) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.awaited[id]
	if w == nil {
		w = &await{done: make(chan struct{})}
		n.awaited[id] = w
	}
	w.reads++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if w.reads--; w.reads == 0 {
			delete(n.awaited, id)
			close(w.done)
		}
	}
}

// sure notes that a loose object is on its way from somebody who has it, or is himself sure of it.
func (n *Node) sure(id chunk.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.awaited[id]; w != nil {
		w.sure = true
	}
}

// await is a loose object that is on its way.
type await struct {
	reads  int  // that want it
	others int  // nodes that wait for it
	sure   bool // the tracker said who sends it: they wait for nobody who may wait for this node
	done   chan struct{}
}

// heldSoon is an object that this node has in memory, or the loose object that it is getting, when it has it.
func (n *Node) heldSoon(ctx context.Context, id chunk.ID) (chunk.Verified, bool) {
	v, ok := n.held(id)
	n.mu.Lock()
	w := n.awaited[id]
	if ok || w == nil || w.others >= 2*looseNamed || n.closed {
		n.mu.Unlock()
		return v, ok
	}
	w.others++
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		w.others--
	}()
	select {
	case <-w.done:
		return n.held(id)
	case <-ctx.Done():
		return v, false
	}
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
