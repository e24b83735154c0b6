package swarm

import "net/netip"

// area names the nodes that may be peers of each other. What one that keeps to its place was given is no help
// elsewhere, so what left the server is counted for each place by itself: counted together, all others would wait
// for what they cannot get.
type locality struct {
	pack      string
	localOnly bool
	location  string
	subnet    netip.Prefix // without a place
}

func localityOf(pack, place string, subnet netip.Prefix, near bool) locality {
	switch {
	case !near:
		return locality{pack: pack}
	case place != "":
		return locality{pack: pack, localOnly: true, location: place}
	}
	return locality{pack: pack, localOnly: true, subnet: subnet}
}

// inPack is a node in the swarm of a pack.
type packNode struct {
	pack string
	node netip.AddrPort
}

// of is the swarm of a pack that a node is in, nil when it is in none.
func (t *Tracker) swarmFor(pack string, node netip.AddrPort) *swarm {
	return t.swarmOf[packNode{pack, node}]
}
