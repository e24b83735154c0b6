package swarm

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pando/internal/chunk"
)

// newTracker returns a tracker whose uplink sends a piece of 1000 bytes in 10 ms.
func newTracker() *Tracker { return NewTracker(TrackerOptions{Uplink: 100_000, Random: chance()}) }

func join(t *testing.T, tr *Tracker, now time.Duration, n byte) AnnounceReply {
	t.Helper()
	out, ok := tr.Announce(now, Announcement{Swarm: "p", Pieces: 40, Node: at(n)})
	if !ok {
		t.Fatalf("node %d may not join", n)
	}
	return out
}

func question(n byte, want ...int) PieceRequest {
	return PieceRequest{
		Swarm:   "p",
		Node:    at(n),
		Size:    1000,
		Request: Request{Want: want, Urgent: len(want), Max: 1, Have: NewBitmap(40)},
	}
}

// While the uplink has room, each node gets what it requests.
func TestFreeUplinkSendsFreely(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 1 << 40, Random: chance()})
	for n := byte(1); n <= 20; n++ {
		join(t, tr, 0, n)
		a, wait, known := tr.Ask(0, question(n, 0))
		if wait || !known || len(a.Grant) != 1 {
			t.Fatalf("node %d: %+v, wait %v", n, a, wait)
		}
	}
}

// The first node of a storm does not count as a lone node. With a large grant, all other nodes would wait until the
// link has carried it.
func TestFirstOfAStormIsNotAlone(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 10_000, Random: chance()})
	join(t, tr, 0, 1)
	q := question(1, 0)
	q.Max = maxGrant
	first, _, _ := tr.Ask(0, q)
	if len(first.Grant) == 0 || len(first.Grant) > maxTransfers {
		t.Errorf("the first one is granted %v", first.Grant)
	}
	if a, _, _ := tr.Ask(time.Minute, having(1, aloneMinPieces)); len(a.Grant) != aloneGrant {
		t.Errorf("one that is alone, and has %d pieces, is granted %v", aloneMinPieces, a.Grant)
	}
}

// having returns the request of a node that has the first pieces.
func having(n byte, pieces int) PieceRequest {
	q := question(n, pieces)
	for p := range pieces {
		q.Have.Set(p)
	}
	return q
}

// On a full uplink, each request gets a piece that no node has, and never a third copy.
func TestSpentUplinkSendsEachPieceAboutOnce(t *testing.T) {
	tr := newTracker()
	copies := map[int]int{}
	for n := byte(1); n <= 100; n++ {
		join(t, tr, 0, n)
	}
	take := func(to netip.AddrPort, g []int) {
		for _, p := range g {
			copies[p]++
			tr.Sent("p", to, p)
		}
	}
	for n := byte(1); n <= 100; n++ {
		a, _, _ := tr.Ask(0, question(n, 0, 1, 2))
		take(at(n), a.Grant)
	}
	if len(copies) > 3 {
		t.Errorf("granted at once, with room for two or three: %v", copies)
	}
	for now := ms; now < 600*ms; now += ms {
		replies, _ := tr.Step(now)
		for _, r := range replies {
			take(r.Node, r.Grant)
			if _, wait, _ := tr.Ask(now, question(r.Node.Addr().As4()[3], 0, 1, 2)); !wait && len(r.Grant) > 0 &&
				now < 300*ms {
				t.Fatal("the uplink is spent and a question does not wait")
			}
		}
	}
	for p := range 40 {
		if copies[p] < 1 || p > 2 && copies[p] > 1 || copies[p] > 2 {
			t.Errorf("piece %d was sent %d times", p, copies[p])
		}
	}
	// No node has announced one of them: they are lost, and sent again.
	for n := byte(1); n <= 100; n++ {
		tr.Cancel("p", at(n))
	}
	tr.Step(15 * time.Second)
	if a, _, _ := tr.Ask(15*time.Second, question(1, 0, 1, 2)); !slices.Equal(a.Grant, []int{0}) {
		t.Errorf("of pieces that were lost: %+v", a)
	}
}

// A third copy is sent after longer than any storm lasts, so that a node that cannot reach the two holders does not
// wait for ever.
func TestThirdCopyIsTheLastResort(t *testing.T) {
	tr := newTracker()
	join(t, tr, 0, 1)
	w := tr.swarms[locality{pack: "p"}]
	x := &queuedRequest{swarm: w, node: w.members[at(1)], want: []int{0}, size: 1000}
	rest := tr.copyDelay(x) << extraCopyDoublings
	if whole := tr.uplink.time(40 * x.size); rest < 16*whole {
		t.Errorf("it comes after %v, and all 40 pieces are sent in %v", rest, whole)
	}
	w.pieces[0] = pieceState{copies: 2, held: 2, last: time.Second}
	for now, want := range map[time.Duration]bool{time.Second: false, time.Second + rest - 1: false,
		time.Second + rest: true} {
		if got := tr.mayCopyAgain(now, x, 0); got != want {
			t.Errorf("%v after the second copy: %v, want %v", now-time.Second, got, want)
		}
	}
	if w.pieces[0].copies = 3; tr.mayCopyAgain(time.Second+rest, x, 0) {
		t.Error("the fourth comes as soon as the third")
	}
}

// A piece granted to a node that never fetches it soon goes to another node, each time.
func TestUnfetchedGrantIsGivenAgain(t *testing.T) {
	tr := newTracker()
	tr.Busy(true) // the server sends only what is needed
	now := time.Duration(0)
	for n := byte(1); n <= 5; n++ {
		join(t, tr, now, n)
	}
	for n := byte(1); n <= 5; n++ {
		a, wait, _ := tr.Ask(now, question(n, 0))
		if wait {
			now += tr.uplink.grantTimeout(1000) + ms
			replies, _ := tr.Step(now)
			a = replies[len(replies)-1].Answer
		}
		if !slices.Contains(a.Grant, 0) {
			t.Fatalf("node %d, at %v: %+v", n, now, a)
		}
		now += tr.uplink.grantTimeout(1000) + ms // the node is dead: its grant is not used
		tr.Step(now)
	}
}

// If no grant is ever seen in use, because another server sends the pieces, grants do not block the uplink for long.
func TestUnseenGrantsAreNotCounted(t *testing.T) {
	tr := newTracker()
	const pieces = 2000
	granted := 0
	for n := byte(1); n <= 2; n++ {
		tr.Announce(0, Announcement{Swarm: "p", Pieces: pieces, Node: at(n)})
	}
	for now := time.Duration(0); now < 10*time.Second; now += 10 * ms {
		replies, _ := tr.Step(now)
		for _, r := range replies {
			granted += len(r.Grant)
		}
		for n := byte(1); n <= 2; n++ {
			q := question(n, granted)
			q.Have = NewBitmap(pieces)
			if a, wait, _ := tr.Ask(now, q); !wait {
				granted += len(a.Grant)
			}
		}
	}
	if granted < 800 { // the uplink could send a thousand
		t.Errorf("%d pieces in ten seconds", granted)
	}
}

func TestHeldQuestionNamesWhoHasIt(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 9; n++ {
		join(t, tr, 0, n)
	}
	tr.uplink.charge(0, 3000)
	tr.swarms[locality{pack: "p"}].pieces = tr.swarms[locality{pack: "p"}].pieces[:40]
	for p := range 40 {
		tr.swarms[locality{pack: "p"}].pieces[p] = pieceState{copies: 2, to: [2]netip.AddrPort{at(1), at(2)}}
	}
	q := question(3, 5, 6)
	q.Urgent = 1 // piece 6 is not urgent
	if _, wait, _ := tr.Ask(0, q); !wait {
		t.Fatal("does not wait")
	}
	var got []PieceReply
	for now := time.Duration(0); now < requestHold(0) && len(got) == 0; now += 10 * ms {
		got, _ = tr.Step(now)
	}
	if len(got) != 1 || len(got[0].Grant) > 0 || len(got[0].Held) != 2 ||
		!slices.Equal(got[0].Held[0].Peers, []netip.AddrPort{at(1), at(2)}) ||
		got[0].Held[1].Peers != nil {
		t.Errorf("reply %+v", got)
	}
}

// A tracker that lost its state learns from the next announcements which node has what, and sends none of it again.
func TestTrackerMayForgetAll(t *testing.T) {
	tr := newTracker()
	if _, _, known := tr.Ask(0, question(1, 0)); known {
		t.Fatal("knows a node that never joined")
	}
	if _, ok := tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: at(1), Have: upTo(40, 20)}); !ok {
		t.Fatal("may not join")
	}
	join(t, tr, 0, 2)
	for now := time.Duration(0); now < time.Second; now += 5 * ms {
		a, _, _ := tr.Ask(
			now,
			PieceRequest{
				Swarm:   "p",
				Node:    at(2),
				Size:    1000,
				Request: Request{Want: []int{18, 19, 20, 21}, Max: 1, Have: upTo(40, 18)},
			},
		)
		if len(a.Grant) > 0 {
			if a.Grant[0] < 20 {
				t.Errorf("sends piece %d, which a node has", a.Grant[0])
			}
			return
		}
	}
	t.Error("grants nothing")
}

// While kernel+initrd transfers fill the uplink, a piece is sent at most twice, even if there seems to be room.
func TestBusyUplinkSendsNothingFreely(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 1 << 40, Random: chance()})
	tr.Busy(true)
	copies := 0
	for n := byte(1); n <= 100; n++ {
		join(t, tr, 0, n)
		a, _, _ := tr.Ask(time.Duration(n)*time.Second/100, question(n, 0))
		for _, p := range a.Grant {
			if p == 0 {
				copies++
			}
		}
	}
	if copies < 1 || copies > 4 {
		t.Errorf("piece 0 was sent %d times", copies)
	}
}

func TestSilentNodesAreForgotten(t *testing.T) {
	tr := NewTracker(TrackerOptions{Random: chance()})
	join(t, tr, 0, 1)
	join(t, tr, 20*time.Second, 2)
	if out := join(t, tr, 40*time.Second, 3); !slices.Equal(out.Peers, []netip.AddrPort{at(2)}) || tr.Nodes() != 2 {
		t.Errorf("named %v of %d nodes", out.Peers, tr.Nodes())
	}
	tr.Leave("p", at(2))
	tr.Leave("p", at(3))
	if len(tr.swarms) != 0 {
		t.Error("an empty swarm stays")
	}
}

func TestLocalPeersComeFirst(t *testing.T) {
	tr := newTracker()
	net := func(n int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", n)) }
	node := func(n, i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n), 0, byte(i)}), 8080)
	}
	place := func(i int) string { return fmt.Sprintf("rack%d", i%4) }
	for n := range 3 {
		for i := range 60 {
			tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: node(n, i+1), Subnet: net(n), Location: place(i)})
		}
	}
	me := Announcement{Swarm: "p", Pieces: 40, Node: node(0, 200), Subnet: net(0), Location: place(0)}
	out, _ := tr.Announce(0, me)
	if len(out.Peers) < 8 || len(out.Peers) > 12 {
		t.Fatalf("%d peers", len(out.Peers))
	}
	local := 0
	for i, p := range out.Peers {
		if net(0).Contains(p.Addr()) {
			local++
			if i < 4 && (int(p.Addr().As4()[3])-1)%4 != 0 {
				t.Errorf("peer %d is %v, which is not of the same place", i, p)
			}
		}
	}
	if local < len(out.Peers)/2 || local == len(out.Peers) {
		t.Errorf("%d of %d are near, want most and not all", local, len(out.Peers))
	}
}

// Local-only nodes are named peers of their own location only, or of their subnet if they have no location.
func TestLocalNodesKeepToTheirPlace(t *testing.T) {
	tr := newTracker()
	subnet := netip.MustParsePrefix("10.0.0.0/24")
	demand := chunk.Sum([]byte("loose")).Short()
	places := map[netip.AddrPort]string{}
	for n := byte(1); n <= 60; n++ {
		j := Announcement{
			Swarm:     "p",
			Pieces:    40,
			Node:      at(n),
			Subnet:    subnet,
			Location:  []string{"a", "b", ""}[n%3],
			LocalOnly: n%2 == 0,
		}
		places[j.Node] = j.Location
		tr.Announce(0, j)
		tr.uplink.busyUntil = 0
		tr.demandHolders(0, demand, at(n), 1000)
	}
	for n := byte(1); n <= 60; n++ {
		out, _ := tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: at(n)})
		tr.uplink.charge(0, 1<<20)
		named, _ := tr.demandHolders(0, demand, at(n), 1000)
		if n%2 == 0 && len(out.Peers) < 4 {
			t.Errorf("node %d has %d peers", n, len(out.Peers))
		}
		for _, p := range append(out.Peers, named...) {
			if local := n%2 == 0 || p.Addr().As4()[3]%2 == 0; local && places[p] != places[at(n)] {
				t.Errorf("node %d in place %q is named %v in %q", n, places[at(n)], p, places[p])
			}
		}
	}
	far := Announcement{
		Swarm:     "p",
		Pieces:    40,
		Node:      at(99),
		Subnet:    netip.MustParsePrefix("10.9.0.0/24"),
		LocalOnly: true,
	}
	if out, _ := tr.Announce(0, far); len(out.Peers) > 0 {
		t.Errorf("one alone in its subnet is named %v", out.Peers)
	}
}

func TestBanNeedsIndependentProofs(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 5; n++ {
		join(t, tr, 0, n)
	}
	bad := at(5).Addr()
	for _, from := range []byte{1, 1, 1, 5, 2} {
		if tr.ReportCorrupt(at(from).Addr(), bad) {
			t.Fatalf("banned by the word of node %d", from)
		}
	}
	if !tr.ReportCorrupt(at(3).Addr(), bad) {
		t.Fatal("three nodes are not enough")
	}
	if out := join(t, tr, 0, 4); slices.Contains(out.Peers, at(5)) || !slices.Equal(out.Banned, []netip.Addr{bad}) {
		t.Errorf("joined: %+v", out)
	}
	if _, ok := tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: at(5)}); ok {
		t.Error("a banned node joins")
	}
	// Reports of a banned node do not count.
	tr.ReportCorrupt(at(1).Addr(), at(4).Addr())
	tr.ReportCorrupt(at(2).Addr(), at(4).Addr())
	if tr.ReportCorrupt(bad, at(4).Addr()) {
		t.Error("a banned node banned another")
	}
}

func TestTrackerRefusesNonsense(t *testing.T) {
	tr := newTracker()
	for name, j := range map[string]Announcement{
		"less than no pieces": {Swarm: "x", Pieces: -1, Node: at(1)},
		"too many pieces":     {Swarm: "x", Pieces: 1 << 20, Node: at(1)}, "no address": {Swarm: "x", Pieces: 4},
	} {
		if _, ok := tr.Announce(0, j); ok {
			t.Error(name)
		}
	}
	join(t, tr, 0, 1)
	if _, ok := tr.Announce(0, Announcement{Swarm: "p", Pieces: 41, Node: at(2)}); ok {
		t.Error("another number of pieces")
	}
	if a, wait, known := tr.Ask(0, question(1, -1, 40, 1000)); len(a.Grant) > 0 || wait || !known {
		t.Errorf("%+v, wait %v", a, wait)
	}
}

// A node whose uploads break off is avoided by its peers. The copies that it was sent do not count until they stop
// avoiding it.
func TestCopiesOfAnUnreliableNodeDoNotCount(t *testing.T) {
	tr := newTracker()
	join(t, tr, 0, 1)
	a, _, _ := tr.Ask(0, having(1, aloneMinPieces))
	if len(a.Grant) != aloneGrant {
		t.Fatalf("alone, and granted %v", a.Grant)
	}
	first, second := a.Grant[0], a.Grant[1]
	for _, p := range a.Grant {
		tr.Sent("p", at(1), p)
	}
	for n := byte(2); n <= 20; n++ {
		join(t, tr, time.Second, n)
	}
	now := time.Second
	tr.Ask(now, PieceRequest{Swarm: "p", Node: at(1), Size: 1000, Request: Request{Have: gotAll(40, a.Grant...)}})
	for n := byte(2); n <= 4; n++ {
		if w := tr.swarms[locality{pack: "p"}]; w.members[at(1)].unreliable || w.isUnseeded(first) {
			t.Fatalf("shunned, and what it has does not count, because %d nodes say so", n-2)
		}
		tr.Ask(
			now,
			PieceRequest{Swarm: "p", Node: at(n), Size: 1000, Request: Request{Avoided: []netip.AddrPort{at(1)}}},
		)
	}
	w := tr.swarms[locality{pack: "p"}]
	if !w.members[at(1)].unreliable || !w.isUnseeded(first) {
		t.Fatal("three nodes have left it, and the only copy is still its own")
	}
	if a, _, _ := tr.Ask(now, question(5, first)); !slices.Equal(a.Grant, []int{first}) {
		t.Errorf("granted %v, want the piece that only the shunned one has", a.Grant)
	}
	q := question(1, first)
	tr.Busy(true)
	if a, _, _ := tr.Ask(now+time.Second, q); len(a.Grant) > 0 {
		t.Errorf("the shunned one was granted %v again, with the uplink full", a.Grant)
	}
	tr.Busy(false)
	tr.Ask(now, PieceRequest{Swarm: "p", Node: at(1), Size: 1000, Request: Request{Have: gotAll(40, a.Grant...)}})
	for n := byte(2); n <= 4; n++ {
		tr.Ask(now, PieceRequest{Swarm: "p", Node: at(n), Size: 1000})
	}
	if w.members[at(1)].unreliable || w.pieces[second].held != 1 || len(w.avoidedBy) != 0 {
		t.Errorf(
			"nobody has left it: shunned %v, piece %d held by %d, %v",
			w.members[at(1)].unreliable,
			second,
			w.pieces[second].held,
			w.avoidedBy,
		)
	}
}

// A node's reports end when it leaves. A node cannot make itself unreliable, nor another one by two reports.
func TestLeaversAreCountedOnce(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 20; n++ {
		join(t, tr, 0, n)
	}
	w := tr.swarms[locality{pack: "p"}]
	for range 3 {
		tr.Ask(
			0,
			PieceRequest{
				Swarm:   "p",
				Node:    at(2),
				Size:    1000,
				Request: Request{Avoided: []netip.AddrPort{at(1), at(1), at(2), at(200)}},
			},
		)
	}
	if w.avoidedBy[at(1)] != 1 || w.avoidedBy[at(2)] != 0 {
		t.Errorf("%v, want one word about the first node and none about who said it", w.avoidedBy)
	}
	join(t, tr, 0, 200)
	tr.Leave("p", at(2))
	if len(w.avoidedBy) != 0 {
		t.Errorf("%v of one that is gone", w.avoidedBy)
	}
}

func gotAll(pieces int, got ...int) Bitmap {
	b := NewBitmap(pieces)
	for _, p := range got {
		b.Set(p)
	}
	return b
}

// The bootstrap files come from the server while it has room, and otherwise from nodes that have them. No node sends
// more than its link can carry.
func TestStart(t *testing.T) {
	tr := newTracker()
	start := JoinRequest{Swarm: "p", Size: 1000}
	for i := range 2 {
		if peers, wait := tr.bootstrap(0, start); wait || peers != nil {
			t.Fatalf("start %d, with room: %v, wait %v", i, peers, wait)
		}
	}
	tr.firstAfter = time.Second
	if peers, wait := tr.bootstrap(0, start); !wait {
		t.Fatalf("nobody has it, and the uplink is spent: %v", peers)
	}
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	named := map[netip.AddrPort]int{}
	for range 6 {
		peers, wait := tr.bootstrap(0, start)
		if wait != (len(peers) == 0) || len(peers) > bootstrapNames || len(peers) == 2 && peers[0] == peers[1] {
			t.Fatalf("%v, wait %v", peers, wait)
		}
		for _, p := range peers {
			named[p]++
		}
	}
	if fmt.Sprint(named) != "map[10.0.0.1:8080:2 10.0.0.2:8080:2]" {
		t.Errorf("named at once: %v", named)
	}
	if peers, wait := tr.bootstrap(ms, JoinRequest{Swarm: "p", Size: 1000, LocalOnly: true, Location: "r1"}); !wait {
		t.Errorf("of another place: %v", peers)
	}
	if peers, wait := tr.bootstrap(time.Second, start); wait || peers != nil {
		t.Errorf("there is room again: %v, wait %v", peers, wait)
	}
}
