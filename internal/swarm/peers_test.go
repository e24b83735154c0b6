package swarm

import (
	"net/netip"
	"testing"
)

// One host does not fill the list of peers, however many ports it claims.
func TestOneAddressHasFewPeers(t *testing.T) {
	s := newSwarm(40, 0)
	many := func(first int) (out []netip.AddrPort) {
		for port := range maxPeers {
			out = append(out, netip.AddrPortFrom(at(1).Addr(), uint16(first+port)))
		}
		return out
	}
	if fresh := s.AddPeers(0, many(1)...); len(fresh) != maxPeersPerAddress || s.Peers() != maxPeersPerAddress {
		t.Errorf("%d peers of one address", s.Peers())
	}
	if fresh := s.AddPeers(0, many(1000)...); len(fresh) > 0 {
		t.Errorf("and %d more", len(fresh))
	}
	if fresh := s.AddPeers(0, at(2), at(3)); len(fresh) != 2 {
		t.Errorf("of two others %v are met", fresh)
	}
	s.PeerLeft(many(1)[0])
	if fresh := s.AddPeers(0, many(1000)[0]); len(fresh) != 1 {
		t.Error("one that left keeps its place")
	}
}
