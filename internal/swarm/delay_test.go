package swarm

import (
	"encoding/json"
	"testing"
	"time"
)

// The announce delay follows from the links and the number of nodes, and is 0 on usual links.
func TestLate(t *testing.T) {
	const mbit = 1e6 / 8
	for _, x := range []struct {
		uplink, node float64 // bytes per second
		nodes        int
		least, most  time.Duration
	}{
		{0, 0, 200, 0, 0}, {125 * mbit, 0, 40, 0, 0}, {1000 * mbit, 0, 1000, 0, 0}, {100 * mbit, 0, 200, 0, 0},
		{1.5 * mbit, 0, 40, 2 * time.Second, 4 * time.Second}, {0.3 * mbit, 0, 10, 12 * time.Second, 16 * time.Second},
		{0.3 * mbit, 0, 200, 20 * time.Second, MaxAnnounceDelay}, {1, 0, 1, MaxAnnounceDelay, MaxAnnounceDelay},
		{1000 * mbit, 1 * mbit, 1, 3 * time.Second, 5 * time.Second}, // nodes behind slow links of their own
		{1 * mbit, 1000 * mbit, 1, 3 * time.Second, 5 * time.Second},
		{1000 * mbit, 0, 60000, 500 * time.Millisecond, 2 * time.Second}, // many nodes
	} {
		node := func() int64 { return int64(x.node) }
		tr := NewTracker(TrackerOptions{Uplink: int64(x.uplink), NodeLink: node, Random: chance()})
		if got := tr.AnnounceDelay("p", x.nodes); got < x.least || got > x.most {
			t.Errorf(
				"uplink of %.0f and links of %.0f bytes a second, %d nodes: %s, want %s to %s",
				x.uplink,
				x.node,
				x.nodes,
				got,
				x.least,
				x.most,
			)
		}
	}
}

// Times that a tracker or a node tells are bounded.
func TestAbsurdPatience(t *testing.T) {
	var r RequestReplyMessage
	if err := json.Unmarshal([]byte(`{"wait_ms":9223372036854775807,"late_ms":9223372036854775807}`), &r); err != nil {
		t.Fatal(err)
	}
	if a := r.Answer(); a.RetryAfter != maxRetryAfter || a.AnnounceDelay != MaxAnnounceDelay {
		t.Errorf("answer %+v", a)
	}
	if j := (AnnounceReplyMessage{AnnounceDelay: 1 << 60}).Reply(); j.AnnounceDelay != MaxAnnounceDelay {
		t.Errorf("joined %+v", j)
	}
	if a := (RequestReplyMessage{Wait: -5, AnnounceDelay: -5}).Answer(); a.RetryAfter != 0 || a.AnnounceDelay != 0 {
		t.Errorf("answer %+v", a)
	}
	s := newSwarm(40, 0)
	for late, want := range map[time.Duration]time.Duration{time.Hour: MaxAnnounceDelay, -time.Hour: 0} {
		if s.SetAnnounceDelay(late); s.delay != want {
			t.Errorf("told %s, bears %s", late, s.delay)
		}
	}
	for patience, want := range map[time.Duration]time.Duration{0: 4 * time.Second, -1: 4 * time.Second,
		time.Second: 4 * time.Second, 30 * time.Second: 20 * time.Second,
		time.Hour: MessageTimeout(MaxAnnounceDelay) * 2 / 3} {
		if got := requestHold(patience); got != want {
			t.Errorf("a question of one that waits for %s is held for %s, want %s", patience, got, want)
		}
	}
	for patience, want := range map[time.Duration]time.Duration{0: minJoinHold, -1: minJoinHold,
		usualJoinTimeout: usualJoinTimeout / 2, time.Hour: usualJoinTimeout / 2} {
		if got := joinHold(patience, 0); got != want {
			t.Errorf("a start of one that waits for %s is held for %s, want %s", patience, got, want)
		}
	}
	if got := joinHold(time.Hour, 10*time.Second); got != usualJoinTimeout/2+10*time.Second {
		t.Errorf("where word is late it is held for %s", got)
	}
}

// With an announce delay, a node waits longer before it takes the tracker for lost, and tells how long it waits.
func TestTrackerIsNotLostWithAnnounceDelay(t *testing.T) {
	s := newSwarm(40, 0)
	s.SetAnnounceDelay(10 * time.Second)
	step := s.Next(0)
	if step.Request == nil || step.Request.Timeout != MessageTimeout(10*time.Second) {
		t.Fatalf("step %+v", step)
	}
	if step := s.Next(trackerTimeout + minRejoin); len(step.Fetch) > 0 || step.Wake != MessageTimeout(10*time.Second) {
		t.Errorf("after %s: %+v", trackerTimeout+minRejoin, step)
	}
	if step := s.Next(MessageTimeout(10 * time.Second)); len(step.Fetch) == 0 || !step.Fetch[0].Origin() {
		t.Errorf("no answer came at all: %+v", step)
	}
}

// With an announce delay, a peer counts as slow later.
func TestPeersAreNotSlowWithAnnounceDelay(t *testing.T) {
	for late, slow := range map[time.Duration]bool{0: true, 10 * time.Second: false} {
		s := newSwarm(40, 1)
		s.SetAnnounceDelay(late)
		s.PeerHas(at(1), upTo(40, 40))
		if step := s.Next(0); len(step.Fetch) == 0 {
			t.Fatalf("step %+v", step)
		}
		if step := s.Next(slowFirst + ms); len(step.Cancel) > 0 != slow {
			t.Errorf("word is late by %s: %+v", late, step)
		}
	}
}

// The reply to a keep-alive tells the announce delay as every reply does.
func TestSignOfLifeIsTold(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	q := question(1)
	q.Size = 64 << 10
	a, wait, known := tr.Ask(0, q)
	if want := tr.announceDelay(1); wait || !known || a.AnnounceDelay != want || want == 0 || a.RetryAfter < 2*want {
		t.Errorf("%+v, %v, %v; word is late by %s", a, wait, known, want)
	}
}

// While granted pieces fill the uplink, small objects pass them, and large objects are sent after a long wait.
func TestBodyBesideGrants(t *testing.T) {
	tr, node := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()}), at(1).Addr()
	for range maxTransfers {
		tr.uplink.start(sending{since: 0}, 64<<10)
	}
	body := func(size int64, waited time.Duration) time.Duration {
		after, _ := tr.admit(0, node, size, waited)
		return after
	}
	if after := body(4000, 0); after != 0 {
		t.Errorf("a part of the index waits for %s", after)
	}
	if after := body(64<<10, 0); after <= 0 {
		t.Error("a large object passes what was granted")
	}
	if after := body(64<<10, admitFactor*2*time.Second); after != 0 {
		t.Error("a large object never comes")
	}
	for range 100 {
		body(4000, 0)
	}
	if after := body(4000, 0); after <= 0 {
		t.Error("small ones fill the uplink without end")
	}
	if unknown := NewTracker(TrackerOptions{Random: chance()}); func() time.Duration {
		after,
			_ := unknown.admit(0, node, 1<<20, 0)
		return after
	}() != 0 {
		t.Error("something waits for an uplink that nobody knows")
	}
}

// A grant whose piece was requested is not lost, however long the transfer takes. Only an unused grant goes to another
// node.
func TestGrantThatBegan(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	w := tr.swarms[locality{pack: "p"}]
	const size = 64 << 10
	lost := tr.uplink.grantTimeout(size)
	for n := byte(1); n <= 2; n++ {
		tr.uplink.start(sending{swarm: w, node: at(n), piece: int(n), since: 0}, size)
		w.pieces[n].addCopy(at(n), 0)
	}
	tr.Begin(ms, "p", at(1), 1)
	tr.expireTransfers(lost + ms)
	if len(tr.uplink.running) != 1 || w.pieces[1].copies != 1 || w.pieces[2].copies != 0 {
		t.Errorf("under way %+v, copies %d and %d", tr.uplink.running, w.pieces[1].copies, w.pieces[2].copies)
	}
	tr.expireTransfers(2*lost + 2*ms)
	if len(tr.uplink.running) != 0 || w.pieces[1].copies != 1 {
		t.Errorf("in the end: under way %+v, copies %d", tr.uplink.running, w.pieces[1].copies)
	}
}
