package peer

import (
	"net/netip"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// Observer is told of events of a Node. Its methods are called concurrently and must not block.
type Observer interface {
	Received(peer netip.AddrPort, bytes int)  // an object came from a peer
	Uploaded(peer netip.AddrPort, bytes int)  // an object was sent to a peer
	Accused(peer netip.AddrPort, id chunk.ID) // a peer sent wrong bytes: its address is banned
	Left(l swarm.AvoidedPeer)                 // a peer is not asked for a while
	PeersFailed(
		peers []swarm.AvoidedPeer,
	) // transfers from them failed or were slow for the first time; valid until it returns
	Vanished(peer netip.AddrPort) // a peer is gone without a goodbye, while there is something to fetch
	Tracker(
		url string,
		err error,
		// err is nil when the tracker answers for the first time or again; else it does not, or forgot this node
		// (ErrForgotten)
	)
}

type nobody struct{}

func (*nobody) Received(netip.AddrPort, int)     {}
func (*nobody) Uploaded(netip.AddrPort, int)     {}
func (*nobody) Accused(netip.AddrPort, chunk.ID) {}
func (*nobody) Left(swarm.AvoidedPeer)           {}
func (*nobody) PeersFailed([]swarm.AvoidedPeer)  {}
func (*nobody) Vanished(netip.AddrPort)          {}
func (*nobody) Tracker(string, error)            {}

// trackerStatus is what is known of the trackers.
type trackerStatus struct {
	current int  // index of the one that is asked
	known   bool // the observer was told whether it answers
	good    bool
}

// trackerAnswered takes the result of a message; err: there was no reply.
func (n *Node) trackerAnswered(url string, err error) {
	n.reportTracker(url, err)
	if err != nil { // perhaps another server has one
		n.status.current++
	}
}

// reportTracker tells the observer when a tracker begins or ceases to answer.
func (n *Node) reportTracker(url string, err error) {
	if good := err == nil; !n.status.known || good != n.status.good {
		n.status.known, n.status.good = true, good
		n.o.Observer.Tracker(url, err)
	}
}
