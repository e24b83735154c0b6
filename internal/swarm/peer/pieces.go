package peer

import (
	"time"

	"pando/internal/chunk"
)

// Use gives the node its piece store. It is called once.
func (n *Node) Use(s PieceStore) {
	n.mu.Lock()
	n.pieces = s
	n.mu.Unlock()
	n.Moved()
}

// Dropped says that the piece store dropped a piece. It does not block; the piece store may hold a lock.
func (n *Node) Dropped(piece int) {
	n.mu.Lock()
	n.drops = append(n.drops, piece)
	n.mu.Unlock()
	n.Moved()
}

// Ahead says that a piece is to be fetched ahead that was taken for cached. It does not block.
func (n *Node) Ahead(piece int) {
	n.mu.Lock()
	n.aheads = append(n.aheads, piece)
	n.mu.Unlock()
	n.Moved()
}

// Moved says that Reach may have changed. It does not block.
func (n *Node) Moved() {
	select {
	case n.kicked <- struct{}{}:
	default: // it will look anyway
	}
}

func (n *Node) pieceStore() PieceStore {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pieces
}

// news takes the changes of the piece store.
func (n *Node) news() {
	n.mu.Lock()
	s, drops, aheads := n.pieces, n.drops, n.aheads
	n.drops, n.aheads = nil, nil
	n.mu.Unlock()
	if s == nil {
		return
	}
	for _, p := range drops {
		if _, kept := s.Piece(p); !kept { // it may have come again
			n.swarm.Remove(p)
			n.setHave(p, false)
		}
	}
	for _, p := range aheads {
		if _, kept := s.Piece(p); !kept && n.lost[p] == nil { // a read may have fetched it
			n.swarm.Prefetch(p)
		}
	}
	if n.o.Cached != nil { // the cache brings pieces without this node
		for p := range n.o.Pieces {
			if _, kept := s.Piece(p); kept {
				n.setHave(p, true)
			}
		}
	}
	n.swarm.SetLimit(s.Reach())
}

// setHave notes a piece that peers may fetch here, or not any more. Peers are told at once or with later news, because
// a message has a hundred bytes of headers.
func (n *Node) setHave(piece int, kept bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.have.Has(piece) == kept {
		return
	}
	n.have[piece>>3] ^= 1 << (piece & 7)
	wait := n.swarm.HaveDelay(piece)
	at := n.now() + wait
	switch {
	case wait == 0 || !kept:
		n.sendHave()
	case n.haveAt == 0 || at < n.haveAt:
		n.haveAt = at
		time.AfterFunc(wait, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.haveAt == at { // nothing was sent meanwhile
				n.sendHave()
			}
		})
	}
}

// sendHave wakes the streams of all watchers. Callers hold mu.
func (n *Node) sendHave() {
	n.haveAt = 0
	close(n.changed)
	n.changed = make(chan struct{})
}

// keep takes a piece that came, for reads and for peers.
func (n *Node) keep(piece int, v chunk.Verified) {
	s := n.pieceStore()
	kept := s != nil && s.Put(piece, v)
	n.setHave(piece, kept)
	if !kept {
		n.swarm.Remove(piece)
	}
	n.answer(piece, result{v: v})
	if s != nil {
		n.swarm.SetLimit(s.Reach())
	}
}

// answer gives a piece to the reads that wait for it.
func (n *Node) answer(piece int, r result) {
	for _, c := range n.waits[piece] {
		c <- r
	}
	delete(n.waits, piece)
}

// waitForPiece registers a read; c has room for the answer.
func (n *Node) waitForPiece(now time.Duration, piece int, c chan result) {
	if err := n.lost[piece]; err != nil {
		c <- result{err: err}
		return
	}
	if s := n.pieceStore(); s != nil {
		if v, kept := s.Piece(piece); kept {
			c <- result{v: v}
			return
		}
	}
	n.swarm.Remove(piece)
	n.waits[piece] = append(n.waits[piece], c)
	n.swarm.Urgent(now, piece)
}
