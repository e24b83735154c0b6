package peer

import (
	"net/netip"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// Observer receives the events of a Node. Its methods are called concurrently and must not block.
type Observer interface {
	TransferObserver
	FaultObserver
	// Tracker reports a tracker that answers for the first time or again (err is nil), that does not answer, or that
	// forgot this node (err is ErrForgotten).
	Tracker(url string, err error)
}

// TransferObserver receives the objects that came from peers or went to them.
type TransferObserver interface {
	Received(peer netip.AddrPort, bytes int) // an object came from a peer
	Uploaded(peer netip.AddrPort, bytes int) // an object was sent to a peer
}

// FaultObserver receives the reasons why peers are not asked.
type FaultObserver interface {
	Corrupt(peer netip.AddrPort, id chunk.ID) // a peer sent wrong bytes; its address is banned
	Left(l swarm.AvoidedPeer)                 // a peer is not asked for a while
	Vanished(peer netip.AddrPort)             // a peer left without a goodbye while there is something to fetch
	// PeersFailed reports the first failed or slow transfer of each of these peers. The slice is valid only during the
	// call.
	PeersFailed(peers []swarm.AvoidedPeer)
}

type nobody struct{}

func (*nobody) Received(netip.AddrPort, int)     {}
func (*nobody) Uploaded(netip.AddrPort, int)     {}
func (*nobody) Corrupt(netip.AddrPort, chunk.ID) {}
func (*nobody) Left(swarm.AvoidedPeer)           {}
func (*nobody) PeersFailed([]swarm.AvoidedPeer)  {}
func (*nobody) Vanished(netip.AddrPort)          {}
func (*nobody) Tracker(string, error)            {}

// trackerStatus is what the node knows of its trackers.
type trackerStatus struct {
	current int  // index of the tracker in use
	known   bool // the observer was told of good
	good    bool
}

// trackerAnswered handles the result of a message. err: there was no reply.
func (n *Node) trackerAnswered(url string, err error) {
	n.reportTracker(url, err)
	if err != nil { // another server may have a tracker
		n.status.current++
	}
}

// reportTracker tells the observer when a tracker starts or stops answering.
func (n *Node) reportTracker(url string, err error) {
	if good := err == nil; !n.status.known || good != n.status.good {
		n.status.known, n.status.good = true, good
		n.o.Observer.Tracker(url, err)
	}
}
