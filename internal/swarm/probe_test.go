package swarm

import (
	"net/netip"
	"slices"
	"testing"
)

// A peer whose transfer takes three times the usual time is probed, and not again soon. A peer that answers is avoided
// no sooner than before.
func TestLongTransferIsProbed(t *testing.T) {
	s := usually(2, 100*ms)
	s.begin(0, Fetch{1, at(1)})
	s.begin(0, Fetch{2, at(1)})
	if step := s.Next(299 * ms); len(step.Probe) > 0 || step.Wake != 300*ms {
		t.Errorf("%v probed after 299 ms, and again to look at %v", step.Probe, step.Wake)
	}
	if step := s.Next(300 * ms); !slices.Equal(step.Probe, []netip.AddrPort{at(1)}) {
		t.Errorf("%v probed", step.Probe)
	}
	for now := 301 * ms; now < s.transferTimeout(); now += 50 * ms {
		if step := s.Next(now); len(step.Probe)+len(step.Cancel)+len(step.Avoided) > 0 {
			t.Errorf("after %v: %+v", now, step)
		}
	}
	if step := s.Next(s.transferTimeout()); len(step.Cancel) != 2 || len(step.Avoided) != 1 ||
		step.Avoided[0].Unreachable {
		t.Errorf("after %v: %+v", s.transferTimeout(), step)
	}
}

// A peer that cannot be reached any more is dropped at once with all its transfers. Their times do not count, and
// pieces that only this peer had are requested.
func TestUnreachedPeerIsLeftAtOnce(t *testing.T) {
	s := usually(1, 100*ms)
	s.AddPeers(0, at(2))
	s.PeerHas(at(2), upTo(200, 1))
	s.SetLimit(3)
	s.begin(0, Fetch{0, at(1)})
	s.begin(0, Fetch{1, at(1)})
	s.Urgent(0, 1)
	if step := s.Next(300 * ms); !slices.Equal(step.Probe, []netip.AddrPort{at(1)}) {
		t.Fatalf("%v probed", step.Probe)
	}
	s.PeerUnreachable(400*ms, at(1))
	step := s.Next(400 * ms)
	if len(step.Cancel) != 2 || !slices.Equal(step.Avoided, []AvoidedPeer{{Peer: at(1), Unreachable: true}}) {
		t.Errorf("ended %v, left %v", step.Cancel, step.Avoided)
	}
	if !slices.Equal(step.Fetch, []Fetch{{0, at(2)}}) || step.Request == nil ||
		!slices.Equal(step.Request.Want, []int{1, 2}) {
		t.Errorf("fetched %v, asked %+v", step.Fetch, step.Request)
	}
	if s.peerTime != 100*ms {
		t.Errorf("a transfer usually takes %v, it is said", s.peerTime)
	}
}
