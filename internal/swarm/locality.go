package swarm

import "net/netip"

// locality identifies a set of nodes that may be peers of each other. The copies of a piece are counted per locality,
// because a local-only node does not help the others.
type locality struct {
	pack      string
	localOnly bool
	location  string
	subnet    netip.Prefix // set when there is no location
}

func localityOf(pack, place string, subnet netip.Prefix, localOnly bool) locality {
	switch {
	case !localOnly:
		return locality{pack: pack}
	case place != "":
		return locality{pack: pack, localOnly: true, location: place}
	}
	return locality{pack: pack, localOnly: true, subnet: subnet}
}

// packNode is a node in the swarm of a pack.
type packNode struct {
	pack string
	node netip.AddrPort
}

// swarmFor returns the swarm of a pack that a node is in, or nil.
func (t *Tracker) swarmFor(pack string, node netip.AddrPort) *swarm {
	return t.swarmOf[packNode{pack, node}]
}
