package swarm

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pando/internal/chunk"
)

// claims returns a tracker with an uplink of 100 Mb/s.
func claims() *Tracker { return NewTracker(TrackerOptions{Uplink: 12_500_000, Random: chance()}) }

// claimDemand requests that number of demand objects of a size, and fetches none.
func claimDemand(t *testing.T, tr *Tracker, now time.Duration, from netip.AddrPort, objects int, size int64) {
	t.Helper()
	for i := range objects {
		if peers, _ := tr.FindDemand(now, chunk.Sum(fmt.Append(nil, from, size, i)).Short(), from, size); len(
			peers,
		) > 0 {
			t.Fatalf("named %v", peers)
		}
	}
}

// The size that a node claims for its pieces is limited to possible sizes. Otherwise one node could block the uplink
// for hours, or have any number of pieces in transfer.
func TestClaimedSizesHaveBounds(t *testing.T) {
	for _, size := range []int64{1 << 40, 1<<63 - 1} {
		tr := NewTracker(TrackerOptions{Uplink: 12_500_000, Random: chance()})
		join(t, tr, 0, 1)
		q := having(1, aloneMinPieces)
		q.Size, q.Max = size, maxGrant
		if a, _, _ := tr.Ask(0, q); len(a.Grant) == 0 {
			t.Fatalf("%d bytes: granted nothing", size)
		}
		tr.expireTransfers(2 * time.Second)
		if !tr.uplink.free(2*time.Second, 64<<10) {
			t.Errorf(
				"%d bytes: two seconds later the uplink is spent until %v, %d under way",
				size,
				tr.uplink.busyUntil,
				len(tr.uplink.running),
			)
		}
	}
	tr := NewTracker(TrackerOptions{Uplink: 12_500_000, Random: chance()})
	for n := byte(1); n <= 2; n++ {
		tr.Announce(0, Announcement{Swarm: "p", Pieces: MaxPieces, Node: at(n)})
	}
	for range 2000 {
		if _, wait, _ := tr.Ask(0,
			PieceRequest{Swarm: "p", Node: at(1), Size: -1,
				Request: Request{Want: []int{0}, Urgent: 1, Max: maxGrant, Have: NewBitmap(MaxPieces)}}); wait {
			break
		}
	}
	if got := len(tr.uplink.running); got > 100 {
		t.Errorf("%d pieces of no size are under way", got)
	}
}

// A node that requests demand objects and fetches none takes little from the budget. A node in no swarm takes nothing.
func TestDemandObjectsThatAreNeverFetched(t *testing.T) {
	s := claims()
	claimDemand(t, s, 0, at(1), 2000, 1<<40)
	if s.uplink.busyUntil > 0 ||
		len(s.grants.all)+len(s.grants.owed)+len(s.uplink.running) > 0 {
		t.Errorf(
			"a stranger has the uplink spent until %v, %d granted",
			s.uplink.busyUntil,
			len(s.grants.all),
		)
	}
	for n, size := range map[byte]int64{1: 1 << 40, 3: 0} {
		join(t, s, 0, n)
		before := len(s.grants.all)
		claimDemand(t, s, 0, at(n), 2000, size)
		if got := s.grants.owed[at(n).Addr()]; got.demandBytes > maxOwedDemand || got.transfers > maxOwed ||
			got.transfers == 0 ||
			len(s.grants.all) != before+got.transfers {
			t.Errorf(
				"objects of %d bytes: one node is owed %+v, and %d are granted",
				size,
				got,
				len(s.grants.all)-before,
			)
		}
	}
	if until, most := s.uplink.busyUntil, s.uplink.time(2*maxOwedDemand); until > most {
		t.Errorf("two nodes have the uplink spent until %v, want %v at most", until, most)
	}
	join(t, s, 0, 2)
	claimDemand(t, s, 0, at(2), 1, 1000)
	if s.grants.owed[at(2).Addr()].transfers != 1 {
		t.Error("another node is not counted any more")
	}
	// An object that was fetched, or requested long ago, makes room for another.
	s.ObjectSent(at(2).Addr(), chunk.Sum(fmt.Append(nil, at(2), int64(1000), 0)).Short())
	if _, has := s.grants.owed[at(2).Addr()]; has {
		t.Errorf("all is fetched, and %+v is owed", s.grants.owed[at(2).Addr()])
	}
	claimDemand(t, s, 2*grantMemory, at(1), 1, 5000)
	if got := s.grants.owed[at(1).Addr()]; got != (owed{1, 5000}) {
		t.Errorf("two minutes later %+v is owed", got)
	}
}

// An object that one node requests again and again is charged once.
func TestDemandObjectIsExpectedOnce(t *testing.T) {
	s := claims()
	join(t, s, 0, 1)
	for range 10 {
		claimDemand(t, s, 0, at(1), 1, 1000)
	}
	if got := s.grants.owed[at(1).Addr()]; got != (owed{1, 1000}) || len(s.uplink.running) != 1 {
		t.Errorf("owed %+v, %d under way", got, len(s.uplink.running))
	}
}

// The number of grants remembered for one address is bounded.
func TestGrantsOfOneAddressHaveABound(t *testing.T) {
	s := claims()
	var ids []chunk.ID
	for i := range 2 * maxOwed {
		ids = append(ids, chunk.Sum(fmt.Append(nil, i)))
	}
	all := make([]int, len(ids))
	for i := range all {
		all[i] = i
	}
	for port := range uint16(3) {
		s.NoteGrants(0, "p", netip.AddrPortFrom(at(1).Addr(), port+1), all, ids)
	}
	s.NoteGrants(0, "p", at(2), all[:1], ids)
	if len(s.grants.all) != maxOwed+1 {
		t.Errorf("%d are remembered, want %d of one address and one of another", len(s.grants.all), maxOwed)
	}
	if len(s.grants.owed) != 2 {
		t.Errorf("owed %v", s.grants.owed)
	}
}

// A grant expires after a time that follows from its own size, even if smaller objects are requested meanwhile.
func TestSmallObjectsDoNotEndGrants(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	tr.uplink.start(sending{swarm: tr.swarms[locality{pack: "p"}], node: at(1), since: 0}, 64<<10)
	tr.demandHolders(10*time.Second, chunk.Sum(nil).Short(), at(1), 4000)
	if len(tr.uplink.running) != 1 {
		t.Error("a piece of two seconds is given up after ten")
	}
	if tr.demandHolders(40*time.Second, chunk.Sum(nil).Short(), at(1), 4000); len(tr.uplink.running) != 0 {
		t.Error("it is waited for without end")
	}
}

// With an unknown uplink rate, only the end of a granted transfer makes room.
func TestOnlyGrantsMakeRoom(t *testing.T) {
	s, pack, ids := newTracker(), chunk.Sum([]byte("pack")).String(), make([]chunk.ID, 20)
	for i := range ids {
		ids[i] = chunk.Sum(fmt.Append(nil, i))
	}
	node := netip.MustParseAddrPort("10.0.0.1:80")
	for range maxTransfers {
		s.uplink.start(sending{swarm: &swarm{pack: pack}, node: node, piece: 3}, 1)
	}
	s.NoteGrants(0, pack, node, []int{3}, ids)
	open := func() int { return len(s.uplink.running) }
	s.ObjectSent(node.Addr(), ids[4].Short())
	s.ObjectSent(netip.MustParseAddr("10.0.0.2"), ids[3].Short())
	if open() != maxTransfers {
		t.Errorf("a transfer that nobody granted made room: %d are under way", open())
	}
	s.ObjectSent(node.Addr(), ids[3].Short())
	s.ObjectSent(node.Addr(), ids[3].Short())
	if open() != maxTransfers-1 {
		t.Errorf("one grant is over, and %d are under way", open())
	}
}
