package peer

import (
	"net/netip"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// Observer is told what a Node sees. Its methods are called by several goroutines and must not block.
type Observer interface {
	Received(peer netip.AddrPort, bytes int)  // an object came from a peer
	Uploaded(peer netip.AddrPort, bytes int)  // one was sent to a peer
	Accused(peer netip.AddrPort, id chunk.ID) // a peer sent wrong bytes: nothing is taken from its address any more
	Left(l swarm.AvoidedPeer)                 // nothing is asked of a peer for a while
	PeersFailed(
		peers []swarm.AvoidedPeer,
	) // transfers from them failed or were slow for the first time; valid until it returns
	Vanished(peer netip.AddrPort) // a peer is gone without a goodbye, while there is something to fetch
	Tracker(
		url string,
		err error,
	) // it answers again, or for the first time; or it does not, or has forgotten this node (ErrForgotten)
}

type nobody struct{}

func (*nobody) Received(netip.AddrPort, int)     {}
func (*nobody) Uploaded(netip.AddrPort, int)     {}
func (*nobody) Accused(netip.AddrPort, chunk.ID) {}
func (*nobody) Left(swarm.AvoidedPeer)           {}
func (*nobody) PeersFailed([]swarm.AvoidedPeer)  {}
func (*nobody) Vanished(netip.AddrPort)          {}
func (*nobody) Tracker(string, error)            {}

// hearing is what is known of trackers.
type trackerStatus struct {
	current int  // of those that there are, the one that is asked
	known   bool // whether it answers was told
	good    bool
}

// heardOf takes a tracker's answer, or that there is none.
func (n *Node) trackerAnswered(url string, err error) {
	n.reportTracker(url, err)
	if err != nil { // perhaps another server has one
		n.status.current++
	}
}

// tellOf tells the observer when a tracker begins or ceases to answer as it should.
func (n *Node) reportTracker(url string, err error) {
	if good := err == nil; !n.status.known || good != n.status.good {
		n.status.known, n.status.good = true, good
		n.o.Observer.Tracker(url, err)
	}
}
