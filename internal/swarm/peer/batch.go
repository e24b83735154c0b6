package peer

import (
	"context"
	"sync"

	"pando/internal/chunk"
	"pando/internal/store"
)

// Several makes one attempt at several objects with one question to a server, and calls came for each that comes,
// in order.
type Several func(ctx context.Context, rs []store.Request, came func(i int, v chunk.Verified))

// Bounds of what is asked for together.
const (
	togetherAsks = 2  // questions under way: when one is answered, the next answer begins
	togetherMost = 12 // pieces of a question; half of those that a node alone fetches at a time
)

// together has the pieces that wait for the origin at a time asked for with one question. They are small, and where
// a link is fast it costs both sides more to ask for one, and to answer, than to send it: see
// docs/adr/0052-several-pieces-with-one-question.md.
type together struct {
	mu    sync.Mutex
	waits []*awaited
	asks  int // under way
}

// awaited is a piece that somebody waits for.
type awaited struct {
	store.Request
	came chan chunk.Verified // closed; empty if it did not come
	gone bool                // nobody waits for it any more
}

// enter has a piece asked for. ask: the caller has to call askAll, as nobody else does.
func (t *together) enter(p Piece) (x *awaited, ask bool) {
	x = &awaited{Request: store.Request{ID: p.ID, Size: p.Size}, came: make(chan chunk.Verified, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = append(t.waits, x)
	if ask = t.asks < togetherAsks; ask {
		t.asks++
	}
	return x, ask
}

// leave has a piece not asked for, if that is not too late.
func (t *together) leave(x *awaited) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.gone = true
}

// next takes the pieces of the next question. When there are none, who asked is done.
func (t *together) next() (out []*awaited) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waits) > 0 && len(out) < togetherMost {
		if x := t.waits[0]; !x.gone {
			out = append(out, x)
		}
		t.waits = t.waits[1:]
	}
	if len(out) == 0 {
		t.asks--
	}
	return out
}

// askAll asks until nothing waits.
func (t *together) askAll(ctx context.Context, several Several) {
	for now := t.next(); len(now) > 0; now = t.next() {
		rs := make([]store.Request, len(now))
		for i, x := range now {
			rs[i] = x.Request
		}
		several(ctx, rs, func(i int, v chunk.Verified) { now[i].came <- v })
		for _, x := range now {
			close(x.came)
		}
	}
}

// fromOrigin takes a piece from the origin: by itself if a read waits for it, which shall not wait until a question
// is over. In company, what the tracker grants are single pieces, and the server's word of each is what it counts
// by.
func (n *Node) fromOrigin(ctx context.Context, p Piece, waited bool) (chunk.Verified, error) {
	if n.o.Several == nil || waited || n.sociable.Load() {
		return n.o.Origin.Find(ctx, p.ID, p.Size)
	}
	x, ask := n.together.enter(p)
	if ask {
		n.work.Go(func() { n.together.askAll(n.ctx, n.o.Several) })
	}
	select {
	case v, came := <-x.came:
		if came {
			return v, nil
		}
		return n.o.Origin.Find(ctx, p.ID, p.Size)
	case <-ctx.Done():
		n.together.leave(x)
		return chunk.Verified{}, context.Cause(ctx)
	}
}
