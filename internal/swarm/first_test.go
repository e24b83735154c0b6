package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// While a read waits for a demand object, only urgent pieces are fetched. This ends after a while.
func TestDemandReadsGoBeforeTheWindow(t *testing.T) {
	s := newSwarm(100, 1)
	s.PeerHas(at(1), upTo(100, 100))
	s.SetDemandReads(ms, 1)
	step := s.Next(ms)
	if len(step.Fetch) != 0 || step.Request != nil || step.Wake == 0 {
		t.Errorf("fetched %v ahead, asked %+v, wakes at %v", step.Fetch, step.Request, step.Wake)
	}
	s.Urgent(2*ms, 40)
	if step := s.Next(2 * ms); len(step.Fetch) != 1 || step.Fetch[0].Piece != 40 {
		t.Errorf("a read waits for piece 40, fetched %v", step.Fetch)
	}
	if step := s.Next(ms + s.hedgeDelay()); len(step.Fetch) == 0 {
		t.Error("a demand object that does not come holds up all others")
	}
	s.SetDemandReads(time.Second, 0)
	s.SetDemandReads(time.Second, 1)
	if s.yieldsToDemand(time.Second+s.hedgeDelay()) || !s.yieldsToDemand(time.Second+ms) {
		t.Error("the next demand object is waited for as well, and for no longer")
	}
}

// A node without a tracker does the same.
func TestDemandReadsWithoutATracker(t *testing.T) {
	s := NewFetcher(FetcherOptions{Self: at(200), Pieces: 6, Random: chance()})
	s.SetDemandReads(ms, 1)
	if step := s.Next(ms); len(step.Fetch) != 0 {
		t.Errorf("fetched %v ahead", step.Fetch)
	}
	s.SetDemandReads(2*ms, 0)
	if step := s.Next(2 * ms); len(step.Fetch) == 0 {
		t.Error("nothing is fetched when no read waits any more")
	}
}

// Urgent pieces come first in a request.
func TestReadsAreAskedForFirst(t *testing.T) {
	s := newSwarm(40, 1)
	s.PeerHas(at(1), upTo(40, 3))
	s.Urgent(0, 10)
	s.Urgent(0, 7)
	if step := s.Next(0); step.Request == nil || !slices.Equal(step.Request.Want[:4], []int{10, 7, 3, 4}) {
		t.Errorf("asked %+v", step.Request)
	}
}

// A peer that cannot be reached is avoided for a while, and the tracker is told.
func TestUnreachedPeerIsTold(t *testing.T) {
	s := newSwarm(40, 2)
	now := 200 * ms // the wait for the pieces of peer 1 is over
	s.PeerUnreachable(now, at(2))
	step := s.Next(now)
	if want := []AvoidedPeer{{Peer: at(2), Unreachable: true}}; !slices.Equal(step.Avoided, want) {
		t.Errorf("left %+v", step.Avoided)
	}
	if step.Request == nil || !slices.Equal(step.Request.Avoided, []netip.AddrPort{at(2)}) {
		t.Errorf("asked %+v", step.Request)
	}
	if fresh := s.AddPeers(now+ms, at(2)); len(fresh) > 0 {
		t.Error("met again at once")
	}
}

// Of nodes that avoid each other, the reports of the one that is unreliable first do not count: maybe no node can reach
// it.
func TestReportsOfUnreliableNodesDoNotCount(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 4; n++ {
		join(t, tr, 0, n)
	}
	ask := func(from, about byte) {
		tr.Ask(
			0,
			PieceRequest{
				Swarm:   "p",
				Node:    at(from),
				Size:    1000,
				Request: Request{Avoided: []netip.AddrPort{at(about)}, Timeout: time.Second},
			},
		)
	}
	ask(1, 4)
	ask(4, 2)
	w := tr.swarms[locality{pack: "p"}]
	if !w.members[at(4)].unreliable || w.members[at(2)].unreliable {
		t.Error("the one that others do not reach is to be shunned, and nobody by its word")
	}
}

// A node that peers send nothing, long after it was told to ask them, is served like a lone node until they do.
func TestStalledNodeIsServed(t *testing.T) {
	tr := newTracker()
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	w := tr.swarms[locality{pack: "p"}]
	for p := range w.pieces {
		w.pieces[p] = pieceState{copies: 2, to: [2]netip.AddrPort{at(1), at(1)}, held: 1}
	}
	tr.uplink.busyUntil = time.Hour // busy for an hour
	ask := func(now time.Duration, fed int) Answer {
		a, wait, _ := tr.Ask(
			now,
			PieceRequest{
				Swarm:   "p",
				Node:    at(2),
				Size:    1000,
				Request: Request{Want: []int{5, 6}, Max: 4, FromPeers: fed, Timeout: 20 * time.Second},
			},
		)
		if wait {
			replies, _ := tr.Step(now + time.Minute)
			if len(replies) != 1 {
				t.Fatalf("%d replies", len(replies))
			}
			a = replies[0].Answer
		}
		return a
	}
	if a := ask(ms, 0); len(a.Grant) > 0 || len(a.Held) != 2 {
		t.Fatalf("sent to its peers it gets %+v", a)
	}
	tr.uplink.busyUntil = 0
	now := 10 * time.Minute
	if a := ask(now, 0); len(a.Grant) == 0 || len(a.Held) > 0 || w.pieces[5].copies != 2 {
		t.Errorf("ten minutes later it gets %+v, of piece 5 are %d copies", a, w.pieces[5].copies)
	}
	if ask(now, 1); w.members[at(2)].stalled {
		t.Error("it is stranded though peers give it something")
	}
}

// Each member is told of each ban once.
func TestAnswersNameTheBanned(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 5; n++ {
		join(t, tr, 0, n)
	}
	for n := byte(1); n <= 3; n++ {
		tr.ReportCorrupt(at(n).Addr(), at(5).Addr())
	}
	ask := func() []netip.Addr {
		a, _, _ := tr.Ask(0, PieceRequest{Swarm: "p", Node: at(4), Size: 1000, Request: Request{Timeout: time.Second}})
		return a.Banned
	}
	if got := ask(); !slices.Equal(got, []netip.Addr{at(5).Addr()}) {
		t.Errorf("told of %v", got)
	}
	if got := ask(); len(got) > 0 {
		t.Errorf("told again of %v", got)
	}
}

// The number of members with one address is limited to what a node needs.
func TestOneAddressHasFewPlaces(t *testing.T) {
	tr := newTracker()
	n := 0
	for port := range uint16(100) {
		j := Announcement{
			Swarm:     "p",
			Pieces:    40,
			Node:      netip.AddrPortFrom(at(1).Addr(), port+1),
			LocalOnly: true,
			Location:  string(rune('a' + port)),
		}
		if _, ok := tr.Announce(0, j); ok {
			n++
		}
	}
	if n != maxPerAddress || len(tr.swarms) != n {
		t.Errorf("%d members in %d swarms", n, len(tr.swarms))
	}
	tr.Leave("p", netip.AddrPortFrom(at(1).Addr(), 1))
	if _, ok := tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: at(1)}); !ok {
		t.Error("one that left keeps its place")
	}
}
