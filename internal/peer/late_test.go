package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
	"pando/internal/store"
)

// How late word may be follows from the links and the crowd, and is told only where that is more than on usual ones.
func TestLate(t *testing.T) {
	const mbit = 1e6 / 8
	for _, x := range []struct {
		uplink, node float64 // bytes a second
		nodes        int
		least, most  time.Duration
	}{
		{0, 0, 200, 0, 0}, {125 * mbit, 0, 40, 0, 0}, {1000 * mbit, 0, 1000, 0, 0}, {100 * mbit, 0, 200, 0, 0},
		{1.5 * mbit, 0, 40, 2 * time.Second, 4 * time.Second}, {0.3 * mbit, 0, 10, 12 * time.Second, 16 * time.Second},
		{0.3 * mbit, 0, 200, 20 * time.Second, LateMost}, {1, 0, 1, LateMost, LateMost},
		{1000 * mbit, 1 * mbit, 1, 3 * time.Second, 5 * time.Second}, // nodes behind slow links of their own
		{1 * mbit, 1000 * mbit, 1, 3 * time.Second, 5 * time.Second},
		{1000 * mbit, 0, 60000, 500 * time.Millisecond, 2 * time.Second}, // a crowd
	} {
		tr := NewTracker(TrackerOptions{Uplink: int64(x.uplink), NodeLink: int64(x.node), Random: chance()})
		if got := tr.Late("p", x.nodes); got < x.least || got > x.most {
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

// What a tracker says is bounded, and so is what a node says.
func TestAbsurdPatience(t *testing.T) {
	var r askReply
	if err := json.Unmarshal([]byte(`{"wait_ms":9223372036854775807,"late_ms":9223372036854775807}`), &r); err != nil {
		t.Fatal(err)
	}
	if a := r.answer(); a.Wait != waitMost || a.Late != LateMost {
		t.Errorf("answer %+v", a)
	}
	if j := (joinReply{Late: 1 << 60}).joined(); j.Late != LateMost {
		t.Errorf("joined %+v", j)
	}
	if a := (askReply{Wait: -5, Late: -5}).answer(); a.Wait != 0 || a.Late != 0 {
		t.Errorf("answer %+v", a)
	}
	s := newSwarm(40, 0)
	for late, want := range map[time.Duration]time.Duration{time.Hour: LateMost, -time.Hour: 0} {
		if s.Bear(late); s.late != want {
			t.Errorf("told %s, bears %s", late, s.late)
		}
	}
	for patience, want := range map[time.Duration]time.Duration{0: 4 * time.Second, -1: 4 * time.Second, time.Second: 4 * time.Second, 30 * time.Second: 20 * time.Second,
		time.Hour: answerTime(LateMost) * 2 / 3} {
		if got := holdTime(patience); got != want {
			t.Errorf("a question of one that waits for %s is held for %s, want %s", patience, got, want)
		}
	}
	for patience, want := range map[time.Duration]time.Duration{0: startHold, -1: startHold, startTime: startTime / 2, time.Hour: startTime / 2} {
		if got := startHoldFor(patience, 0); got != want {
			t.Errorf("a start of one that waits for %s is held for %s, want %s", patience, got, want)
		}
	}
	if got := startHoldFor(time.Hour, 10*time.Second); got != startTime/2+10*time.Second {
		t.Errorf("where word is late it is held for %s", got)
	}
}

// Where word is late a node does not take the tracker for lost that it would take for lost elsewhere, and says how
// long it waits.
func TestTrackerIsNotLostWhereWordIsLate(t *testing.T) {
	s := newSwarm(40, 0)
	s.Bear(10 * time.Second)
	step := s.Next(0)
	if step.Ask == nil || step.Ask.Patience != answerTime(10*time.Second) {
		t.Fatalf("step %+v", step)
	}
	if step := s.Next(askLost + joinAgain); len(step.Fetch) > 0 || step.Wake != answerTime(10*time.Second) {
		t.Errorf("after %s: %+v", askLost+joinAgain, step)
	}
	if step := s.Next(answerTime(10 * time.Second)); len(step.Fetch) == 0 || !step.Fetch[0].Origin() {
		t.Errorf("no answer came at all: %+v", step)
	}
}

// Nor are peers slow that are slow elsewhere.
func TestPeersAreNotSlowWhereWordIsLate(t *testing.T) {
	for late, slow := range map[time.Duration]bool{0: true, 10 * time.Second: false} {
		s := newSwarm(40, 1)
		s.Bear(late)
		s.Haves(at(1), upTo(40, 40))
		if step := s.Next(0); len(step.Fetch) == 0 {
			t.Fatalf("step %+v", step)
		}
		if step := s.Next(slowFirst + ms); len(step.Cancel) > 0 != slow {
			t.Errorf("word is late by %s: %+v", late, step)
		}
	}
}

// A tracker that says "again" for ever, and at once, is asked seldom, and not for ever.
func TestStartIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprint(w, `{"again":true,"late_ms":99999999999}`)
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*startPause-startPause/2)
	defer cancel()
	h := StartPeers(ctx, http.DefaultClient, []string{srv.URL}, StartAsk{Pack: chunk.Sum([]byte("x")), Prefix: 24})
	if n := asked.Load(); n != 3 || h.Late != LateMost || h.Peers != nil {
		t.Errorf("asked %d times, %+v", n, h)
	}
}

// A sign of life is answered with what all answers say: a node that took its silence for usual links would give up
// what is only late.
func TestSignOfLifeIsTold(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	q := question(1)
	q.Size = 64 << 10
	a, wait, known := tr.Ask(0, q)
	if want := tr.late(1); wait || !known || a.Late != want || want == 0 || a.Wait < 2*want {
		t.Errorf("%+v, %v, %v; word is late by %s", a, wait, known, want)
	}
}

// Boots that start stand in line: each has its turn, none is sent away while it waits for its own time, and one
// that does not know how to ask again is told within the time that it waits.
func TestStartsStandInLine(t *testing.T) {
	s := newSite(t, 4, 0)
	s.tracker.mu.Lock()
	for range openMost {
		s.tracker.tracker.uplink.spend(sending{since: s.tracker.now() + time.Hour}, 1)
	}
	s.tracker.tracker.firsts = time.Hour
	s.tracker.mu.Unlock()
	client := trackerClient{s.URL, http.DefaultClient, new(atomic.Int64), new(atomic.Int64)}
	replies := make(chan startReply, 3)
	for range 3 {
		go func() {
			var a startReply
			if err := client.post(t.Context(), "start", startMessage{Pack: s.pack.String()}, &a, startTime); err != nil {
				t.Error(err)
			}
			replies <- a
		}()
	}
	for range 3 {
		if a := <-replies; !a.Again || a.Peers != nil {
			t.Errorf("answer %+v", a)
		}
	}
	if n := s.tracker.tracker.starting; n != 0 {
		t.Errorf("%d still stand in line", n)
	}
}

// slowSite is a tracker of a server that sends a piece of 64 KiB in two seconds.
func slowSite() *TrackerServer {
	return NewTrackerServer(TrackerOptions{Uplink: 32 << 10, Random: chance()}, nil)
}

// What nobody granted goes out one after the other at the rate of the uplink, what was granted at once, and who
// gives up costs nothing.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowSite()
		s.start = time.Now()
		node, piece := netip.MustParseAddr("10.0.0.1"), chunk.Sum([]byte("piece"))
		gone, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		came := make(chan time.Duration, 4)
		nodes := byte(0)
		admit := func(ctx context.Context) {
			nodes++
			to := at(nodes).Addr()
			go func() {
				if s.Admit(ctx, to, piece, 64<<10) {
					came <- time.Since(begin)
					time.Sleep(2 * time.Second)
					s.Sent(to, piece)
				}
			}()
			synctest.Wait()
		}
		admit(t.Context())
		admit(t.Context())
		admit(gone)
		admit(t.Context())
		cancel()
		var last time.Duration
		for i := range 3 {
			at := <-came
			if i == 2 && at < 2*time.Second || at > 5*time.Second || at < last {
				t.Errorf("number %d goes out after %s", i, at)
			}
			last = at
		}
		time.Sleep(time.Minute) // all are sent
		s.tracker.grants.all[grant{node, piece.Brief()}] = granted{}
		at := time.Now()
		if !s.Admit(t.Context(), node, piece, 64<<10) || time.Since(at) > 0 {
			t.Errorf("a piece that was granted waits for %s", time.Since(at))
		}
		if usual := NewTrackerServer(TrackerOptions{Uplink: 125e6, Random: chance()}, nil); !usual.Admit(
			t.Context(),
			node,
			chunk.ID{},
			1<<20,
		) ||
			time.Since(at) > 0 {
			t.Error("on a usual link something waits")
		}
	})
}

// A long line goes on one by one, however long who is in it has stood there: one that all leave together is what a
// line is there to prevent.
func TestLongLineGoesOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowSite()
		s.start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var out atomic.Int64
		for i := range 200 {
			to := at(byte(i)).Addr()
			go func() {
				if s.Admit(ctx, to, chunk.Sum([]byte("piece")), 64<<10) {
					out.Add(1)
					time.Sleep(2 * time.Second)
					s.Sent(to, chunk.Sum([]byte("piece")))
				}
			}()
		}
		for minute := int64(1); minute <= 5; minute++ {
			time.Sleep(time.Minute)
			if n := out.Load(); n > 30*minute+openMost || n < 20*minute {
				t.Errorf("%d of 64 KiB have gone out in %d minutes, of 32 KiB a second", n, minute)
			}
		}
		cancel()
		time.Sleep(time.Minute) // what is under way ends
	})
}

// Granted pieces fill the uplink: what is small passes them, and other things come, if seldom.
func TestBodyBesideGrants(t *testing.T) {
	tr, node := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()}), at(1).Addr()
	for range openMost {
		tr.uplink.spend(sending{since: 0}, 64<<10)
	}
	body := func(size int64, waited time.Duration) time.Duration {
		after, _ := tr.body(0, node, size, waited)
		return after
	}
	if after := body(4000, 0); after != 0 {
		t.Errorf("a part of the index waits for %s", after)
	}
	if after := body(64<<10, 0); after <= 0 {
		t.Error("a large object passes what was granted")
	}
	if after := body(64<<10, admitLong*2*time.Second); after != 0 {
		t.Error("a large object never comes")
	}
	for range 100 {
		body(4000, 0)
	}
	if after := body(4000, 0); after <= 0 {
		t.Error("small ones fill the uplink without end")
	}
	if unknown := NewTracker(TrackerOptions{Random: chance()}); func() time.Duration { after, _ := unknown.body(0, node, 1<<20, 0); return after }() != 0 {
		t.Error("something waits for an uplink that nobody knows")
	}
}

// What a node reads first comes from those who helped it to start, and from the server where they do not have it.
func TestHelpers(t *testing.T) {
	s := newSite(t, 4, 0)
	first := s.start(t, 1)
	first.wait(t)
	v, err := chunk.Check(chunk.Sum([]byte("the index")), []byte("the index"))
	if err != nil {
		t.Fatal(err)
	}
	first.Node.mu.Lock()
	first.Node.loose.put(v.ID(), v)
	first.Node.mu.Unlock()
	other := []byte("other")
	s.objects[chunk.Sum(other).Name()] = other
	gone := netip.MustParseAddrPort("127.0.0.1:1")
	second := s.start(t, 2, func(o *NodeOptions) {
		o.Trackers = nil // it knows nobody else
		o.Helpers = []netip.AddrPort{gone, netip.AddrPortFrom(first.o.Self, first.o.Port)}
		o.Slow = &store.Slow{}
	})
	second.wait(t)
	sent, given := s.sent.Load(), second.bytes("peer")
	if got, err := second.Get(t.Context(), chunk.Request{ID: v.ID(), Size: 9}); err != nil || string(got.Stored()) != "the index" ||
		second.bytes("peer") != given+9 {
		t.Errorf("got %q, %v, %d bytes of peers", got.Stored(), err, second.bytes("peer")-given)
	}
	if got, err := second.Get(t.Context(), chunk.Request{ID: chunk.Sum(other), Size: 5}); err != nil || string(got.Stored()) != "other" ||
		s.sent.Load() != sent+5 {
		t.Errorf("got %q, %v, %d bytes of the server", got.Stored(), err, s.sent.Load()-sent)
	}
	second.Node.mu.Lock()
	defer second.Node.mu.Unlock()
	if left := second.reads.helpers; len(left) != 1 || left[0] == gone {
		t.Errorf("helpers that are left: %v, want the one that answers", left)
	}
}

// A helper that says nothing costs one wait, and one that sends something else is accused: neither is asked again.
func TestHelpersThatDoNotHelp(t *testing.T) {
	s := newSite(t, 4, 0)
	var asked atomic.Int32
	end := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-end }))
	wrong := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); io.WriteString(w, "a lie") }),
	)
	t.Cleanup(func() { close(end); silent.Close(); wrong.Close() })
	watch := &accusations{}
	n := s.start(t, 1, func(o *NodeOptions) {
		for _, h := range []*httptest.Server{silent, wrong} {
			o.Helpers = append(o.Helpers, netip.MustParseAddrPort(h.Listener.Addr().String()))
		}
		o.Slow, o.Observer, o.Trackers = &store.Slow{}, watch, nil
	})
	for _, text := range []string{"truth", "facts", "exact"} {
		s.objects[chunk.Sum([]byte(text)).Name()] = []byte(text)
		if v, err := n.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte(text)), Size: 5}); err != nil ||
			string(v.Stored()) != text {
			t.Fatalf("%q, %v", v.Stored(), err)
		}
	}
	if asked.Load() != 2 || watch.n.Load() != 1 {
		t.Errorf("helpers were asked %d times, want once each; %d accusations", asked.Load(), watch.n.Load())
	}
}

// accusations counts them.
type accusations struct {
	nobody
	n atomic.Int32
}

func (a *accusations) Accused(netip.AddrPort, chunk.ID) { a.n.Add(1) }

// A grant that was asked for is under way as long as it takes: only one of which nothing is seen is given to another.
func TestGrantThatBegan(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 32 << 10, Random: chance()})
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	w := tr.swarms[area{pack: "p"}]
	const size = 64 << 10
	lost := tr.uplink.lost(size)
	for n := byte(1); n <= 2; n++ {
		tr.uplink.spend(sending{swarm: w, node: at(n), piece: int(n), since: 0}, size)
		w.pieces[n].give(at(n), 0)
	}
	tr.Begin(ms, "p", at(1), 1)
	tr.over(lost + 2*ms)
	if len(tr.uplink.open) != 1 || w.pieces[1].copies != 1 || w.pieces[2].copies != 0 {
		t.Errorf("under way %+v, copies %d and %d", tr.uplink.open, w.pieces[1].copies, w.pieces[2].copies)
	}
	tr.over(begunTimes*lost + 2*ms)
	if len(tr.uplink.open) != 0 || w.pieces[1].copies != 1 {
		t.Errorf("in the end: under way %+v, copies %d", tr.uplink.open, w.pieces[1].copies)
	}
}
