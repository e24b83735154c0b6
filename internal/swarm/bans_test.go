package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// long returns an address of the greatest length in a message.
func long(n int) netip.AddrPort {
	a := netip.MustParseAddr("fd00:1111:2222:3333:4444:5555:6666:7777").As16()
	a[14], a[15] = byte(n>>8)|0x80, byte(n)
	return netip.AddrPortFrom(netip.AddrFrom16(a), 10000)
}

// banned bans that number of nodes, each by the reports of three other nodes.
func banned(t *testing.T, tr *Tracker, nodes int) {
	t.Helper()
	for n := range nodes {
		if _, ok := tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: long(n)}); !ok {
			t.Fatalf("node %d may not join", n)
		}
		for from := range 3 {
			if got := tr.ReportCorrupt(long(10000+3*n+from).Addr(), long(n).Addr()); got != (from == 2) {
				t.Fatalf("node %d is banned by %d: %v", n, from+1, got)
			}
		}
	}
}

// A ban ends, because another machine may have the address by then. A machine that still sends wrong bytes is banned
// again.
func TestBansEnd(t *testing.T) {
	tr := newTracker()
	bad := Announcement{Swarm: "p", Pieces: 40, Node: at(9)}
	report := func() (out bool) {
		for n := byte(1); n <= 3; n++ {
			out = tr.ReportCorrupt(at(n).Addr(), bad.Node.Addr())
		}
		return out
	}
	if _, ok := tr.Announce(0, bad); !ok || !report() {
		t.Fatal("it is not banned")
	}
	if _, ok := tr.Announce(BanFor-time.Second, bad); ok {
		t.Error("it may join before its time")
	}
	if _, ok := tr.Announce(BanFor+time.Minute, bad); !ok {
		t.Fatal("it may not join an hour later")
	}
	if out := join(t, tr, BanFor+time.Minute, 1); len(out.Banned) > 0 {
		t.Errorf("others are told of %v", out.Banned)
	}
	if !report() {
		t.Error("it is not banned again")
	}
	if a, _, _ := tr.Ask(BanFor+time.Minute, question(1)); !slices.Equal(a.Banned, []netip.Addr{bad.Node.Addr()}) {
		t.Errorf("one who was told of nobody is told of %v", a.Banned)
	}
	// A node that leaves before it is reported can still be banned.
	tr = newTracker()
	tr.Announce(0, bad)
	if tr.Leave("p", bad.Node); !report() {
		t.Error("it got away")
	}
	// Reports that were too few for a ban are forgotten.
	tr = newTracker()
	tr.Announce(0, bad)
	tr.ReportCorrupt(at(1).Addr(), bad.Node.Addr())
	tr.ReportCorrupt(at(2).Addr(), bad.Node.Addr())
	if tr.Announce(2*BanFor, bad); tr.ReportCorrupt(at(3).Addr(), bad.Node.Addr()) || len(tr.bans.reporters) != 1 {
		t.Errorf("banned by a word and two old ones; words of %v", tr.bans.reporters)
	}
}

// Three addresses cannot ban every node. An address that is in no swarm cannot be banned: it is never named anyway, and
// every node would be told of the ban.
func TestAccusationsHaveBounds(t *testing.T) {
	tr := newTracker()
	report := func(nodes int) (banned int) {
		for n := range nodes {
			for from := byte(1); from <= 3; from++ {
				if tr.ReportCorrupt(at(from).Addr(), long(n).Addr()) {
					banned++
				}
			}
		}
		return banned
	}
	if n := report(1200); n > 0 || len(tr.bans.reports)+len(tr.bans.reporters) > 0 {
		t.Errorf("%d banned that nobody knows, %d accused", n, len(tr.bans.reports))
	}
	for n := range 1200 {
		tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: long(n)})
	}
	if n := report(1200); n != maxReports || len(tr.bans.reports) > 0 {
		t.Errorf("three addresses have banned %d, and accused %d more; want %d", n, len(tr.bans.reports), maxReports)
	}
}

// An answer lists as many bans as fit, and the next answers list the rest. An announcement whose reply exceeded
// MaxMessage would fail for every node.
func TestAnswersHaveRoomForBans(t *testing.T) {
	tr := newTracker()
	banned(t, tr, maxBans+100)
	if len(tr.bans.order) != maxBans || len(tr.bans.until) != maxBans {
		t.Errorf("%d bans", len(tr.bans.order))
	}
	for n := range 20 {
		tr.Announce(0, Announcement{Swarm: "p", Pieces: 40, Node: long(5000 + n)})
	}
	out := join(t, tr, 0, 1)
	if size := encoded(EncodeAnnounceReply(out)); size > MaxMessage || len(out.Banned) == 0 || len(out.Peers) == 0 {
		t.Errorf("an answer of %d bytes with %d bans and %d peers", size, len(out.Banned), len(out.Peers))
	}
	told := map[netip.Addr]bool{}
	for asks := 0; len(out.Banned) > 0 && asks < 10; asks++ {
		for _, a := range out.Banned {
			if told[a] {
				t.Errorf("told twice of %v", a)
			}
			told[a] = true
		}
		a, _, _ := tr.Ask(0, question(1))
		if size := encoded(EncodeAnswer(a)); size > MaxMessage {
			t.Errorf("an answer of %d bytes", size)
		}
		out.Banned = a.Banned
	}
	if len(told) != maxBans {
		t.Errorf("told of %d", len(told))
	}
}
