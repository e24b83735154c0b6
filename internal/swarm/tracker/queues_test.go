package tracker

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// Join requests are held in a queue. Each gets "again" within its node's timeout, also if the node tells no timeout.
func TestJoinsAreQueued(t *testing.T) {
	s, url, pack := newSite(t, 4, 1)
	s.spend(t, pack)
	replies := make(chan swarm.JoinReplyMessage, 3)
	for range 3 {
		go func() {
			var a swarm.JoinReplyMessage
			if err := post(t, url+"/swarm/start", swarm.JoinMessage{Pack: pack.String()}, &a); err != nil {
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
	if n := len(s.joins); n != 0 {
		t.Errorf("%d still stand in line", n)
	}
}

// slowSite returns the tracker of a server that sends a piece of 64 KiB in two seconds.
func slowSite() *Server {
	return New(swarm.TrackerOptions{Uplink: 32 << 10, Random: chance()}, nil, nil)
}

// Ungranted objects are sent one after the other at the rate of the uplink, granted ones at once. A client that gives
// up costs nothing.
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
		time.Sleep(time.Minute)
		synctest.Wait() // all are sent
		s.tracker.NoteGrants(s.now(), "p", netip.AddrPortFrom(node, 1), []int{0}, []chunk.ID{piece})
		at := time.Now()
		if !s.Admit(t.Context(), node, piece, 64<<10) || time.Since(at) > 0 {
			t.Errorf("a piece that was granted waits for %s", time.Since(at))
		}
		if usual := New(swarm.TrackerOptions{Uplink: 125e6, Random: chance()}, nil, nil); !usual.Admit(
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

// A long queue of objects is served one by one, however long its requests have waited.
func TestLongQueueGoesOneByOne(t *testing.T) {
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
			if n := out.Load(); n > 30*minute+4 || n < 20*minute {
				t.Errorf("%d of 64 KiB have gone out in %d minutes, of 32 KiB a second", n, minute)
			}
		}
		cancel()
		time.Sleep(time.Minute) // running transfers end
	})
}

// A boot that must wait does not delay a boot of another locality.
func TestJoinWaitsForItsOwnLocalityOnly(t *testing.T) {
	s := New(swarm.TrackerOptions{Uplink: 1, Random: chance()}, nil, nil)
	s.spend(t, chunk.Sum(nil))
	if _, ok := s.tracker.Announce(0,
		swarm.Announcement{Swarm: "p", Pieces: 40, Node: at(1), LocalOnly: true, Location: "r1"}); !ok {
		t.Fatal("it may not join")
	}
	start := func(ctx context.Context, place string) (a swarm.JoinReplyMessage, ok bool) {
		r := httptest.NewRequestWithContext(ctx, "POST", "/swarm/start", nil)
		r.RemoteAddr = "10.0.0.9:999"
		return s.join(
			r,
			swarm.JoinMessage{Pack: "p", LocalOnly: true, Location: place, Patience: (12 * time.Second).Milliseconds()},
		)
	}
	gone, cancel := context.WithCancel(t.Context())
	held := make(chan bool, 1)
	go func() {
		_, ok := start(gone, "r2") // no node has the files, and there is no room
		held <- ok
		close(held)
	}()
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.joins) == 1 })
	time.Sleep(40 * time.Millisecond) // it is the first of its queue
	begin := time.Now()
	if a, ok := start(t.Context(), "r1"); !ok || len(a.Peers) != 1 || a.Peers[0] != at(1) ||
		time.Since(begin) > time.Second {
		t.Errorf("%+v, %v after %v", a, ok, time.Since(begin))
	}
	select {
	case <-held:
		t.Error("the other one had an answer")
	default:
	}
	cancel()
	if <-held {
		t.Error("one that is gone had an answer")
	}
	if len(s.joins) != 0 {
		t.Errorf("%d boots stand there", len(s.joins))
	}
}
