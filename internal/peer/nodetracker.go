package peer

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// join tells the tracker that this node is here.
func (n *Node) join() {
	q := joinMessage{Pack: n.o.Pack.String(), Pieces: len(n.o.Pieces), Port: n.o.Port, Prefix: n.o.Prefix, Place: n.o.Place, Near: n.o.Near,
		Have: slices.Clone(n.swarm.Have())}
	n.work.Go(func() {
		var a joinReply
		err := n.tracker.post(n.ctx, "join", q, &a, askLost)
		n.post(n.ctx, func(now time.Duration) {
			n.began = true
			if err != nil {
				n.o.Log.Debug("join the swarm", "err", err)
				n.swarm.Lost(now)
				return
			}
			n.swarm.Tracking(now, true)
			for _, b := range a.Banned {
				n.swarm.Ban(b)
				n.ban(b)
			}
			n.meet(now, a.Peers...)
		})
	})
}

// ask puts a question to the tracker. The answer may be held.
func (n *Node) ask(a Ask) {
	q := askMessage{Pack: n.o.Pack.String(), Port: n.o.Port, Size: n.pieceSize(), Want: a.Want, Max: a.Max, Have: slices.Clone(a.Have)}
	n.work.Go(func() {
		var r askReply
		err := n.tracker.post(n.ctx, "ask", q, &r, askLost)
		n.post(n.ctx, func(now time.Duration) {
			if err != nil {
				n.o.Log.Debug("ask the tracker", "err", err)
				n.swarm.Lost(now)
				return
			}
			n.swarm.Answer(now, r.answer())
		})
	})
}

// pieceSize is that of a usual piece.
func (n *Node) pieceSize() int64 {
	var sum int64
	for _, p := range n.o.Pieces {
		sum += p.Size
	}
	return sum / int64(max(1, len(n.o.Pieces)))
}

func (n *Node) report(a netip.AddrPort) {
	n.ban(a.Addr())
	if n.o.Tracker == "" {
		return
	}
	n.work.Go(func() {
		// The tracker may be gone; this node has banned the peer in any case.
		_ = n.tracker.post(n.ctx, "wrong", wrongMessage{a}, &struct{}{}, askLost)
	})
}

func (n *Node) ban(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.banned[a] = true
}

// goodbye spares others the attempt to reach a node that is not there any more.
func (n *Node) goodbye() {
	if n.o.Tracker == "" || !n.swarm.tracker {
		return
	}
	// Nobody waits for it, and if it is lost the tracker forgets the node by itself.
	_ = n.tracker.post(context.WithoutCancel(n.ctx), "leave", leaveMessage{n.o.Pack.String(), n.o.Port}, &struct{}{}, joinTime)
}
