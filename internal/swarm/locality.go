package swarm

import "net/netip"

// area names the nodes that may be peers of each other. What one that keeps to its place was given is no help
// elsewhere, so what left the server is counted for each place by itself: counted together, all others would wait
// for what they cannot get.
type area struct {
	pack   string
	near   bool
	place  string
	subnet netip.Prefix // without a place
}

func areaOf(pack, place string, subnet netip.Prefix, near bool) area {
	switch {
	case !near:
		return area{pack: pack}
	case place != "":
		return area{pack: pack, near: true, place: place}
	}
	return area{pack: pack, near: true, subnet: subnet}
}

// inPack is a node in the swarm of a pack.
type inPack struct {
	pack string
	node netip.AddrPort
}

// of is the swarm of a pack that a node is in, nil when it is in none.
func (t *Tracker) of(pack string, node netip.AddrPort) *swarm { return t.homes[inPack{pack, node}] }
