package swarm

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pando/internal/chunk"
)

// demandReads returns the decisions of a node whose bootstrap peers are nodes 1 and 2 and whose recent peers are nodes
// 3 and 4. Node 9 is banned.
func demandReads(late time.Duration) *DemandReads {
	l := NewDemandReads(
		DemandOptions{Bootstrap: []netip.AddrPort{at(1), at(2)}, AnnounceDelay: func() time.Duration { return late },
			Banned: func(a netip.Addr) bool { return a == at(9).Addr() }},
	)
	l.addRecent(at(4))
	l.addRecent(at(3))
	return l
}

func wantAsks(t *testing.T, what string, r *DemandRead, now time.Duration, wake time.Duration, want ...DemandRequest) {
	t.Helper()
	if got, next := r.Next(now); !reflect.DeepEqual(got, want) || next != wake {
		t.Errorf("%s: asks %+v and wakes at %s, want %+v and %s", what, got, next, want, wake)
	}
}

// A node without peers asks its bootstrap peers, one after the other, and then the origin. A bootstrap peer that
// answers is asked for the next object too.
func TestReadOfANodeThatIsAlone(t *testing.T) {
	l := demandReads(0)
	r := l.Begin(chunk.Sum(nil), false)
	one, two := DemandRequest{
		FromBootstrap,
		at(1),
		bootstrapTimeout,
	}, DemandRequest{
		FromBootstrap,
		at(2),
		bootstrapTimeout,
	}
	wantAsks(t, "first", r, 0, 0, one)
	wantAsks(t, "while it is asked", r, time.Hour, 0)
	r.Failed(one, Broken)
	wantAsks(t, "one is gone", r, ms, 0, two)
	r.Failed(two, Missing)
	wantAsks(t, "the other one has it not", r, 2*ms, 0, DemandRequest{From: FromOrigin})
	wantAsks(t, "the origin is asked", r, 3*ms, 0)
	r.Came(DemandRequest{From: FromOrigin})
	wantAsks(t, "it came", r, 4*ms, 0)
	if !l.End(r) || len(l.bootstrap) != 1 || l.bootstrap[0] != at(2) || len(l.pending) != 0 {
		t.Errorf("left are %v, awaited %v", l.bootstrap, l.pending)
	}
}

// A node with peers asks its recent peers, the tracker, the peers that the tracker names, and the origin. Each stage
// begins when the one before failed or is late. Late answers of earlier stages still count.
func TestReadOfANodeAmongOthers(t *testing.T) {
	l := demandReads(0)
	r := l.Begin(chunk.Sum(nil), true)
	sender, second := DemandRequest{From: FromRecent, Peer: at(3)}, DemandRequest{From: FromRecent, Peer: at(4)}
	wantAsks(t, "first", r, ms, ms+minHedge, sender)
	r.Failed(sender, Busy)
	wantAsks(t, "it is busy", r, 2*ms, ms+minHedge, second)
	tracker := DemandRequest{From: FromTracker, Timeout: minHedge}
	now := ms + minHedge
	wantAsks(t, "the other one is late", r, now, 0, tracker)
	if len(l.recent) != 0 || r.pending.settled {
		t.Errorf("late givers are asked first again: %v; it is sure: %v", l.recent, r.pending.settled)
	}
	r.Answered([]netip.AddrPort{at(9), at(5), at(6), at(7)}, time.Second)
	peer := DemandRequest{FromPeer, at(5), time.Second}
	wantAsks(t, "named", r, now, now+time.Second, peer)
	if !r.pending.settled {
		t.Error("the tracker said who sends it, and it is not sure")
	}
	r.Failed(peer, Missing)
	peer.Peer = at(6) // three of the named peers are used, without banned ones
	wantAsks(t, "one has it not", r, now+ms, now+time.Second, peer)
	wantAsks(t, "the next one is late", r, now+time.Second, 0, DemandRequest{From: FromOrigin})
	r.Failed(second, Missing)
	wantAsks(t, "all are asked", r, now+2*time.Second, 0)
	r.Came(peer)
	if l.End(r); len(l.recent) != 1 || l.recent[0] != at(6) {
		t.Errorf("givers %v, want who gave it", l.recent)
	}
}

// If the tracker names no peer or does not answer, the origin is asked at once. With an announce delay all waits are
// longer.
func TestReadThatNobodyIsNamedFor(t *testing.T) {
	late := 4 * time.Second
	l := NewDemandReads(
		DemandOptions{
			AnnounceDelay: func() time.Duration { return late },
			Banned:        func(netip.Addr) bool { return false },
		},
	)
	r := l.Begin(chunk.Sum(nil), true)
	wantAsks(t, "no givers", r, 0, 0, DemandRequest{From: FromTracker, Timeout: late / demandDelayPart})
	r.Answered(nil, 0)
	wantAsks(t, "nobody is named", r, ms, 0, DemandRequest{From: FromOrigin})
	if l.recentTimeout() != 2*late {
		t.Errorf("givers may take %s", l.recentTimeout())
	}
}

// A node may wait for an object that this node is fetching if this node cannot be waiting for it: it has asked the
// tracker, the sender is known, or it has the higher address. At most 2*maxNamed nodes may wait.
func TestWhoMayWait(t *testing.T) {
	l, id := demandReads(0), chunk.Sum(nil)
	if l.Wait(id, false, true) != nil {
		t.Error("one waits for what is not on its way")
	}
	r, other := l.Begin(id, true), l.Begin(id, true)
	for _, x := range []struct{ first, sure, higher, may bool }{
		{false, false, false, true}, {true, false, false, false}, {true, false, true, true}, {true, true, false, true},
	} {
		r.pending.settled = x.sure
		w := l.Wait(id, x.first, x.higher)
		if (w != nil) != x.may {
			t.Errorf("%+v: %v", x, w != nil)
		}
		if w != nil {
			w.Leave()
		}
	}
	n := 0
	for l.Wait(id, false, false) != nil {
		n++
	}
	if n != 2*maxNamed {
		t.Errorf("%d wait", n)
	}
	if l.End(r) || !l.End(other) {
		t.Error("it is on its way as long as a read wants it")
	}
}
