package peer

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"pando/internal/chunk"
)

// claims is a tracker's server with an uplink of 100 Mb/s, of which no time has passed.
func claims() *TrackerServer {
	return NewTrackerServer(TrackerOptions{Uplink: 12_500_000, Random: chance()}, nil, nil)
}

// claimLoose asks for as many loose objects of a size as it says, and fetches none.
func (s *TrackerServer) claimLoose(t *testing.T, from netip.AddrPort, objects int, size int64) {
	t.Helper()
	r := httptest.NewRequest("POST", "/swarm/loose", nil)
	r.RemoteAddr = netip.AddrPortFrom(from.Addr(), 999).String()
	for i := range objects {
		if a, ok := s.looseObject(r, looseMessage{Object: chunk.Sum(fmt.Append(nil, from, size, i)).Brief(), Size: size, Port: wirePort(from.Port())}); !ok ||
			len(a.Peers) > 0 {
			t.Fatalf("answer %+v, %v", a, ok)
		}
	}
}

// What a node says of the size of its pieces is believed within what pieces can have: it would else keep all others
// waiting for hours, or have any number under way.
func TestClaimedSizesHaveBounds(t *testing.T) {
	for _, size := range []int64{1 << 40, 1<<63 - 1} {
		tr := NewTracker(TrackerOptions{Uplink: 12_500_000, Random: chance()})
		join(t, tr, 0, 1)
		q := having(1, aloneLeast)
		q.Size, q.Max = size, maxGrant
		if a, _, _ := tr.Ask(0, q); len(a.Grant) == 0 {
			t.Fatalf("%d bytes: granted nothing", size)
		}
		tr.over(2 * time.Second)
		if !tr.uplink.free(2*time.Second, 64<<10) {
			t.Errorf(
				"%d bytes: two seconds later the uplink is spent until %v, %d under way",
				size,
				tr.uplink.until,
				len(tr.uplink.open),
			)
		}
	}
	tr := NewTracker(TrackerOptions{Uplink: 12_500_000, Random: chance()})
	for n := byte(1); n <= 2; n++ {
		tr.Join(0, Join{Swarm: "p", Pieces: maxPieces, Node: at(n)})
	}
	for range 2000 {
		if _, wait, _ := tr.Ask(0, Question{Swarm: "p", Node: at(1), Size: -1, Ask: Ask{Want: []int{0}, Soon: 1, Max: maxGrant, Have: NewBitmap(maxPieces)}}); wait {
			break
		}
	}
	if got := len(tr.uplink.open); got > 100 {
		t.Errorf("%d pieces of no size are under way", got)
	}
}

// Who asks for loose objects and fetches none takes little from the budget, and who is in no swarm nothing.
func TestLooseObjectsThatAreNeverFetched(t *testing.T) {
	s := claims()
	s.claimLoose(t, at(1), 2000, 1<<40)
	if s.tracker.uplink.until > 0 ||
		len(s.tracker.grants.all)+len(s.tracker.grants.owed)+len(s.tracker.uplink.open) > 0 {
		t.Errorf(
			"a stranger has the uplink spent until %v, %d granted",
			s.tracker.uplink.until,
			len(s.tracker.grants.all),
		)
	}
	for n, size := range map[byte]int64{1: 1 << 40, 3: 0} {
		join(t, s.tracker, 0, n)
		before := len(s.tracker.grants.all)
		s.claimLoose(t, at(n), 2000, size)
		if got := s.tracker.grants.owed[at(n).Addr()]; got.loose > owedLoose || got.transfers > owedMost ||
			got.transfers == 0 ||
			len(s.tracker.grants.all) != before+got.transfers {
			t.Errorf(
				"objects of %d bytes: one node is owed %+v, and %d are granted",
				size,
				got,
				len(s.tracker.grants.all)-before,
			)
		}
	}
	if until, most := s.tracker.uplink.until, s.now()+s.tracker.uplink.time(2*owedLoose); until > most {
		t.Errorf("two nodes have the uplink spent until %v, want %v at most", until, most)
	}
	join(t, s.tracker, 0, 2)
	s.claimLoose(t, at(2), 1, 1000)
	if s.tracker.grants.owed[at(2).Addr()].transfers != 1 {
		t.Error("another node is not counted any more")
	}
	// What is fetched, or was too long ago, makes room.
	s.Sent(at(2).Addr(), chunk.Sum(fmt.Append(nil, at(2), int64(1000), 0)))
	if _, has := s.tracker.grants.owed[at(2).Addr()]; has {
		t.Errorf("all is fetched, and %+v is owed", s.tracker.grants.owed[at(2).Addr()])
	}
	s.start = s.start.Add(-2 * noteLost)
	s.claimLoose(t, at(1), 1, 5000)
	if got := s.tracker.grants.owed[at(1).Addr()]; got != (owed{1, 5000}) {
		t.Errorf("two minutes later %+v is owed", got)
	}
}

// One object that is asked for again and again is counted once.
func TestLooseObjectIsExpectedOnce(t *testing.T) {
	s := claims()
	join(t, s.tracker, 0, 1)
	for range 10 {
		s.claimLoose(t, at(1), 1, 1000)
	}
	if got := s.tracker.grants.owed[at(1).Addr()]; got != (owed{1, 1000}) || len(s.tracker.uplink.open) != 1 {
		t.Errorf("owed %+v, %d under way", got, len(s.tracker.uplink.open))
	}
}

// What is remembered of one address has a bound.
func TestGrantsOfOneAddressHaveABound(t *testing.T) {
	s := claims()
	var ids []chunk.ID
	for i := range 2 * owedMost {
		ids = append(ids, chunk.Sum(fmt.Append(nil, i)))
	}
	all := make([]int, len(ids))
	for i := range all {
		all[i] = i
	}
	for port := range uint16(3) {
		s.tracker.Note(0, "p", netip.AddrPortFrom(at(1).Addr(), port+1), all, ids)
	}
	s.tracker.Note(0, "p", at(2), all[:1], ids)
	if len(s.tracker.grants.all) != owedMost+1 {
		t.Errorf("%d are remembered, want %d of one address and one of another", len(s.tracker.grants.all), owedMost)
	}
	if len(s.tracker.grants.owed) != 2 {
		t.Errorf("owed %v", s.tracker.grants.owed)
	}
}

// After a power cut nobody joins, and who was there is not counted for ever.
func TestSilentNodesAreNotCounted(t *testing.T) {
	s := claims()
	join(t, s.tracker, 0, 1)
	if s.Nodes() != 1 {
		t.Fatal("a node that joined is not counted")
	}
	s.start = s.start.Add(-time.Hour)
	if n := s.Nodes(); n != 0 {
		t.Errorf("%d nodes, which said nothing for an hour", n)
	}
}

// A grant is waited for as long as its own size takes, whoever asks for something smaller meanwhile.
func TestSmallObjectsDoNotEndGrants(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	tr.uplink.spend(sending{swarm: tr.swarms[area{pack: "p"}], node: at(1), since: 0}, 64<<10)
	tr.Loose(10*time.Second, chunk.Sum(nil).Brief(), at(1), 4000)
	if len(tr.uplink.open) != 1 {
		t.Error("a piece of two seconds is given up after ten")
	}
	if tr.Loose(40*time.Second, chunk.Sum(nil).Brief(), at(1), 4000); len(tr.uplink.open) != 0 {
		t.Error("it is waited for without end")
	}
}
