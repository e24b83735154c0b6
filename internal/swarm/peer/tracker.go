package peer

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"pando/internal/swarm"
)

// currentTracker returns a client of the tracker in use.
func (n *Node) currentTracker() trackerClient {
	t := n.tracker
	t.url = n.o.Trackers[n.status.current%len(n.o.Trackers)]
	return t
}

// announce announces this node to the tracker.
func (n *Node) announce() {
	// The tracker sees the address of the node, but not the length of the prefix.
	subnet := netip.PrefixFrom(netip.IPv6Unspecified(), n.o.Prefix)
	q := swarm.EncodeAnnouncement(
		swarm.Announcement{
			Swarm:     n.o.Pack.String(),
			Pieces:    len(n.o.Pieces),
			Node:      n.self(),
			Subnet:    subnet,
			Location:  n.o.Location,
			LocalOnly: n.o.LocalOnly,
			Have:      slices.Clone(n.swarm.Have()),
		},
	)
	t, timeout := n.currentTracker(), n.messageTimeout()
	n.work.Go(func() {
		var r swarm.AnnounceReplyMessage
		err := t.post(n.ctx, "join", q, &r, timeout)
		a := r.Reply()
		n.post(n.ctx, func(now time.Duration) {
			if n.quit {
				return
			}
			n.began = true
			n.trackerAnswered(t.url, err)
			if err != nil {
				n.o.Log.Debug("announcement to the tracker failed", "err", err)
				n.swarm.TrackerLost(now)
				return
			}
			n.swarm.SetTracker(now, true)
			n.setAnnounceDelay(a.AnnounceDelay)
			for _, b := range a.Banned {
				n.swarm.Ban(b)
				n.ban(b)
			}
			n.addPeers(now, a.Peers...)
		})
	})
}

// requestPieces sends a piece request. The tracker may hold it open.
func (n *Node) requestPieces(a swarm.Request) {
	a.Have = slices.Clone(a.Have)
	q := swarm.EncodeRequest(
		swarm.PieceRequest{Swarm: n.o.Pack.String(), Node: n.self(), Size: n.pieceSize(), Request: a},
	)
	t := n.currentTracker()
	n.requests++
	number := n.requests
	n.work.Go(func() {
		var r swarm.RequestReplyMessage
		err := t.post(n.ctx, "ask", q, &r, a.Timeout)
		n.post(n.ctx, func(now time.Duration) {
			switch {
			case n.quit || number != n.requests: // the answer is to an older request
			case errors.Is(err, ErrForgotten):
				if n.swarm.Wanting() { // a node with all pieces is not affected by a restart of the tracker
					n.reportTracker(t.url, err)
				}
				n.swarm.TrackerForgot(now)
			case err != nil:
				n.o.Log.Debug("piece request to the tracker failed", "err", err)
				n.trackerAnswered(t.url, err)
				n.swarm.TrackerLost(now)
			default:
				a := r.Answer()
				n.setAnnounceDelay(a.AnnounceDelay)
				for _, b := range a.Banned {
					n.ban(b)
				}
				n.addPeers(now, n.swarm.Answered(now, a)...)
			}
		})
	})
}

// self returns the port where the node serves. The tracker sees its address.
func (n *Node) self() netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, n.o.Port) }

// setAnnounceDelay sets the announce delay for decisions and for connections.
func (n *Node) setAnnounceDelay(delay time.Duration) {
	n.swarm.SetAnnounceDelay(delay)
	n.o.Slow.Set(swarm.BoundDelay(delay))
}

// messageTimeout returns how long the node waits for a reply of the tracker.
func (n *Node) messageTimeout() time.Duration { return swarm.MessageTimeout(n.o.Slow.AtLeast(0)) }

// pieceSize returns the average size of a piece in bytes.
func (n *Node) pieceSize() int64 {
	var sum int64
	for _, p := range n.o.Pieces {
		sum += p.Size
	}
	return sum / int64(max(1, len(n.o.Pieces)))
}

func (n *Node) report(a netip.AddrPort) {
	n.ban(a.Addr())
	if len(n.o.Trackers) == 0 {
		return
	}
	t, timeout := n.currentTracker(), n.messageTimeout()
	n.work.Go(func() {
		// If the tracker is gone the report is lost. This node has banned the peer in any case.
		_ = t.post(n.ctx, "wrong", swarm.CorruptMessage{Peer: a}, &struct{}{}, timeout)
	})
}

func (n *Node) ban(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.banned[a] = true
}

// Leave takes the node out of the swarm: it no longer serves peers, and its reads come from the origin. Leave returns
// when the tracker has been told, or ctx is done.
func (n *Node) Leave(ctx context.Context) {
	n.mu.Lock()
	n.closed = true
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	done := make(chan struct{})
	n.post(ctx, func(now time.Duration) {
		if n.quit {
			close(done)
			return
		}
		bye := n.bye()
		n.quit = true
		n.swarm.LeaveSwarm(now)
		n.work.Go(func() { bye(); close(done) })
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// goodbye tells the tracker that this node goes down, so that other nodes do not try to reach it.
func (n *Node) goodbye() { n.bye()() }

// bye returns a function that tells the tracker that this node leaves.
func (n *Node) bye() func() {
	if len(n.o.Trackers) == 0 || n.quit || !n.swarm.HasTracker() {
		return func() {}
	}
	t := n.currentTracker()
	return func() {
		// A lost message does no harm: the tracker forgets a silent node.
		_ = t.post(
			context.WithoutCancel(n.ctx),
			"leave",
			swarm.LeaveMessage{Pack: n.o.Pack.String(), Port: swarm.WirePort(n.o.Port)},
			&struct{}{},
			announceTime,
		)
	}
}
