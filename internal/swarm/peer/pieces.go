package peer

import "time"

// Moved notes that the piece store changed. It does not block, so the piece store may call it with a lock held.
func (n *Node) Moved() {
	select {
	case n.kicked <- struct{}{}:
	default: // a look is pending already
	}
}

// piece returns the result for a read of a piece, if the piece store knows one.
func (n *Node) piece(piece int) (r result, known bool) {
	v, held, lost := n.o.Store.Piece(piece)
	return result{v, lost}, held || lost != nil
}

// news takes the changes of the piece store.
func (n *Node) news() {
	if n.o.Store == nil {
		return
	}
	changed, left, reach := n.o.Store.Changes()
	for _, p := range changed {
		_, held, _ := n.o.Store.Piece(p)
		if !held {
			n.swarm.Remove(p)
		}
		n.setHave(p, held)
	}
	for _, p := range left {
		if _, known := n.piece(p); !known { // unless a read has fetched it
			n.swarm.Prefetch(p)
		}
	}
	n.swarm.SetLimit(reach)
}

// setHave notes whether peers may fetch a piece here. Peers are told at once or together with later news, because each
// message has a hundred bytes of headers.
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
			if n.haveAt == at { // peers were not told meanwhile
				n.sendHave()
			}
		})
	}
}

// sendHave wakes the streams of all watchers. The caller holds mu.
func (n *Node) sendHave() {
	n.haveAt = 0
	close(n.changed)
	n.changed = make(chan struct{})
}

// answer sends the result of a piece to the reads that wait for it.
func (n *Node) answer(piece int, r result) {
	for _, c := range n.waits[piece] {
		c <- r
	}
	delete(n.waits, piece)
}

// waitForPiece registers a read. c must have room for the answer.
func (n *Node) waitForPiece(now time.Duration, piece int, c chan result) {
	if r, known := n.piece(piece); known {
		c <- r
		return
	}
	n.swarm.Remove(piece)
	n.waits[piece] = append(n.waits[piece], c)
	n.swarm.Urgent(now, piece)
}
