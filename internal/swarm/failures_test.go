package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// toldOf returns the report of one peer.
func toldOf(n byte, slow bool) []AvoidedPeer { return []AvoidedPeer{{Peer: at(n), Slow: slow}} }

// usually returns a node that knows peers 1 to n, which have all pieces, and the usual transfer time.
func usually(n int, takes time.Duration) *Fetcher {
	s := newSwarm(200, n)
	for i := range n {
		s.PeerHas(at(byte(i+1)), upTo(200, 200))
	}
	s.SetLimit(0) // only the test begins fetches
	s.peerSamples, s.peerTime = learnSamples, takes
	return s
}

// A transfer that breaks off or takes much longer than usual is reported, once for each peer. The report waits until
// the node may have learned that the peer is gone.
func TestFirstFailureIsTold(t *testing.T) {
	for name, x := range map[string]struct {
		slow bool
		fail func(s *Fetcher, now time.Duration, piece int) (ends time.Duration)
	}{
		"broken": {false, func(s *Fetcher, now time.Duration, piece int) time.Duration {
			s.begin(now, Fetch{piece, at(1)})
			s.Fail(now+ms, Fetch{piece, at(1)}, Broken)
			return now + ms
		}},
		"given up": {true, func(s *Fetcher, now time.Duration, piece int) time.Duration {
			s.begin(now, Fetch{piece, at(1)})
			s.Next(now + s.transferTimeout())
			return now + s.transferTimeout()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := usually(2, 100*ms)
			end := x.fail(s, 0, 1)
			step := s.Next(end)
			if len(step.Failed)+len(step.Avoided) > 0 || step.WakeFailed < end+failureDelay-time.Second ||
				step.WakeFailed > end+failureDelay {
				t.Fatalf("at once: %+v", step)
			}
			tell := step.WakeFailed
			if step = s.Next(tell - ms); len(step.Failed) > 0 {
				t.Errorf("too soon: %+v", step.Failed)
			}
			if step = s.Next(tell); !slices.Equal(step.Failed, toldOf(1, x.slow)) || step.WakeFailed != 0 {
				t.Errorf("told of %+v, then at %v", step.Failed, step.WakeFailed)
			}
			s.find(at(1)).strikes = 0 // a later transfer succeeded
			end = x.fail(s, tell, 2)
			if step = s.Next(end + 2*failureDelay); len(step.Failed) > 0 || step.WakeFailed != 0 {
				t.Errorf("told again: %+v", step)
			}
		})
	}
}

// A transfer is not reported that this node cancelled, that brought its piece in time, or that a peer refused because
// it was busy or lacked the piece.
func TestWhatIsNoFailureIsNotTold(t *testing.T) {
	for name, end := range map[string]func(s *Fetcher){
		"cancelled": func(s *Fetcher) { s.begin(90*ms, Fetch{Piece: 1}); s.Done(100*ms, Fetch{Piece: 1}) },
		"lost":      func(s *Fetcher) { s.GiveUp(1) },
		"busy":      func(s *Fetcher) { s.Fail(ms, Fetch{1, at(1)}, Busy) },
		"missing":   func(s *Fetcher) { s.Fail(ms, Fetch{1, at(1)}, Missing) },
		"usual":     func(s *Fetcher) { s.Done(slowFactor*100*ms, Fetch{1, at(1)}) },
		"leaving":   func(s *Fetcher) { s.LeaveSwarm(ms); s.Fail(2*ms, Fetch{1, at(1)}, Broken) },
	} {
		s := usually(2, 100*ms)
		s.begin(0, Fetch{1, at(1)})
		end(s)
		if step := s.Next(time.Second); step.WakeFailed != 0 || len(step.Failed) > 0 {
			t.Errorf("%s: %+v", name, step)
		}
		if step := s.Next(3 * failureDelay); len(step.Failed) > 0 {
			t.Errorf("%s: told of %+v", name, step.Failed)
		}
	}
	s := newSwarm(200, 1) // no usual time is known yet: all peers may be as slow
	s.begin(0, Fetch{1, at(1)})
	s.Done(slowFirst-ms, Fetch{1, at(1)})
	if step := s.Next(slowFirst); step.WakeFailed != 0 {
		t.Errorf("the first transfer of all is doubted: %+v", step)
	}
}

// A peer that went away is not reported as failed. A peer that is avoided or banned is reported as that alone.
func TestWhoIsGoneDidNotFail(t *testing.T) {
	for name, end := range map[string]func(s *Fetcher){
		"gone":   func(s *Fetcher) { s.PeerLeft(at(1)) },
		"left":   func(s *Fetcher) { s.begin(0, Fetch{2, at(1)}); s.Fail(2*ms, Fetch{2, at(1)}, Broken) },
		"banned": func(s *Fetcher) { s.Ban(at(1).Addr()) },
	} {
		s := usually(2, 100*ms)
		s.begin(0, Fetch{1, at(1)})
		s.Fail(ms, Fetch{1, at(1)}, Broken)
		s.Next(ms)
		end(s)
		s.AddPeers(3*ms, at(3)) // the new peer in its slot did not fail
		step := s.Next(3 * ms)
		if (name == "left") != (len(step.Avoided) > 0) {
			t.Errorf("%s: %+v", name, step.Avoided)
		}
		if step = s.Next(2 * failureDelay); len(step.Failed) > 0 || step.WakeFailed != 0 {
			t.Errorf("%s: told of %+v", name, step)
		}
	}
}

// Peers that fail at about the same time are reported together. A peer that fails shortly before a report waits for the
// next one, because it may be gone.
func TestFailuresAreToldTogether(t *testing.T) {
	s := usually(8, 100*ms)
	for n, now := range []time.Duration{0, 500 * ms, 900 * ms, 1900 * ms} {
		p := Fetch{n, at(byte(n + 1))}
		s.begin(now, p)
		s.Fail(now, p, Broken)
	}
	step := s.Next(failureDelay)
	if len(step.Failed) != 3 || step.WakeFailed <= failureDelay || step.WakeFailed > 2*failureDelay {
		t.Fatalf("told of %+v, then at %v", step.Failed, step.WakeFailed)
	}
	if step = s.Next(step.WakeFailed); !slices.Equal(step.Failed, toldOf(4, false)) || step.WakeFailed != 0 {
		t.Errorf("then told of %+v, and at %v", step.Failed, step.WakeFailed)
	}
}

// With an announce delay, the report of failures waits longer.
func TestFailuresAreReportedLaterWithAnnounceDelay(t *testing.T) {
	s := usually(1, 100*ms)
	s.SetAnnounceDelay(3 * time.Second)
	s.begin(0, Fetch{1, at(1)})
	s.Fail(0, Fetch{1, at(1)}, Broken)
	if step := s.Next(failureDelay); len(step.Failed) > 0 || step.WakeFailed != failureDelay+3*time.Second {
		t.Errorf("%+v", step)
	}
}

// The number of reports is bounded.
func TestFailuresAreBounded(t *testing.T) {
	s := usually(0, 100*ms)
	told := 0
	for n := range 2 * maxReported {
		now := time.Duration(n) * time.Minute
		p := Fetch{n % 200, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}), 8080)}
		s.AddPeers(now, p.Peer)
		s.begin(now, p)
		s.Fail(now, p, Broken)
		told += len(s.Next(now + failureDelay).Failed)
		s.PeerLeft(p.Peer)
	}
	if told != maxReported {
		t.Errorf("told of %d, want %d", told, maxReported)
	}
}
