package swarm

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func at(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 8080)
}

func chance() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// newSwarm returns a node with a tracker that knows peers 1 to n, which have no piece.
func newSwarm(pieces, n int) *Fetcher {
	s := NewFetcher(FetcherOptions{Self: at(200), Pieces: pieces, Random: chance()})
	s.SetTracker(0, true)
	for i := range n {
		s.AddPeers(0, at(byte(i+1)))
	}
	return s
}

func upTo(pieces, n int) Bitmap {
	b := NewBitmap(pieces)
	for p := range n {
		b.Set(p)
	}
	return b
}

// Prefetch fetches exactly the given piece ahead, and a second call changes nothing.
func TestAheadAfterAll(t *testing.T) {
	s := NewFetcher(FetcherOptions{Self: at(200), Pieces: 6, Idle: true, Random: chance()})
	if step := s.Next(0); len(step.Fetch) > 0 || s.Missing() != 0 {
		t.Fatalf("an idle node began with %v, %d missing", step.Fetch, s.Missing())
	}
	for _, p := range []int{4, 2, 2} {
		s.Prefetch(p)
	}
	if s.Missing() != 2 {
		t.Errorf("%d missing, want 2", s.Missing())
	}
	var got []int
	for step := s.Next(0); len(step.Fetch) > 0; step = s.Next(ms) {
		for _, f := range slices.Clone(step.Fetch) {
			got = append(got, f.Piece)
			s.Done(ms, f)
		}
	}
	s.Prefetch(2) // it has arrived
	if step := s.Next(2 * ms); !slices.Equal(got, []int{2, 4}) || len(step.Fetch) > 0 || s.Missing() != 0 {
		t.Errorf("pieces %v, then %v; %d missing", got, step.Fetch, s.Missing())
	}
}

// A node without tracker and peers does not wait: pieces come from the origin, in order, a few at a time.
func TestAloneIsPlainUnicast(t *testing.T) {
	s := NewFetcher(FetcherOptions{Self: at(200), Pieces: 6, Random: chance()})
	var got []int
	for step := s.Next(0); len(step.Fetch) > 0; step = s.Next(ms) {
		if step.Request != nil {
			t.Fatal("asked a tracker that is not there")
		}
		if len(got) == 0 && len(step.Fetch) != 4 {
			t.Fatalf("began with %v, want four transfers", step.Fetch)
		}
		for _, f := range slices.Clone(step.Fetch) {
			if !f.Origin() {
				t.Fatalf("%v is not from the origin", f)
			}
			got = append(got, f.Piece)
			s.Done(ms, f)
		}
	}
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) || s.Missing() != 0 {
		t.Errorf("pieces %v, %d missing", got, s.Missing())
	}
}

func TestRarestOfTheWindowFromPeers(t *testing.T) {
	s := newSwarm(100, 3)
	s.PeerHas(at(1), upTo(100, 100))
	s.PeerHas(at(2), upTo(100, 12))
	s.PeerHas(at(3), upTo(100, 12))
	step := s.Next(0)
	if len(step.Fetch) != 6 || step.Request != nil {
		t.Fatalf("step %+v", step)
	}
	// Pieces 12 to 15 are in the window of 16, and one peer alone has them; it allows two transfers at a time. Pieces
	// from 16 on wait.
	var rare int
	for _, f := range step.Fetch {
		if f.Piece >= 16 || f.Origin() {
			t.Errorf("%v is not in the window, or not from a peer", f)
		}
		if f.Piece >= 12 {
			rare++
		}
	}
	if rare != 2 {
		t.Errorf("%d rare pieces of %v, want 2", rare, step.Fetch)
	}
}

func TestTrackerIsAskedForWhatNoPeerHas(t *testing.T) {
	s := newSwarm(40, 1)
	s.PeerHas(at(1), upTo(40, 3))
	step := s.Next(0)
	if step.Request == nil || step.Request.Want[0] != 3 || slices.ContainsFunc(step.Fetch, Fetch.Origin) {
		t.Fatalf("step %+v", step)
	}
	s.Answered(ms, Answer{Grant: []int{3, 5}, Held: []HeldPiece{{Piece: 4}, {Piece: 6}}, RetryAfter: 50 * ms})
	step = s.Next(ms)
	if !slices.Contains(step.Fetch, Fetch{Piece: 3}) || !slices.Contains(step.Fetch, Fetch{Piece: 5}) {
		t.Errorf("granted pieces are not fetched: %+v", step.Fetch)
	}
	if step.Request == nil || slices.Contains(step.Request.Want, 4) || slices.Contains(step.Request.Want, 6) {
		t.Errorf("asks again for what is coming: %+v", step.Request)
	}
	s.Answered(52*ms, Answer{})
	if step = s.Next(52 * ms); step.Request == nil || !slices.Contains(step.Request.Want, 4) {
		t.Errorf("does not ask for what did not come: %+v", step.Request)
	}
}

// If a peer has all pieces of the window, the next pieces that no peer has are requested. They are not urgent.
func TestWhatComesAfterTheWindowIsAskedFor(t *testing.T) {
	s := newSwarm(100, 1)
	s.PeerHas(at(1), upTo(100, 60))
	step := s.Next(0)
	if step.Request == nil || step.Request.Want[0] != 60 || step.Request.Urgent != 0 {
		t.Fatalf("asks %+v", step.Request)
	}
	s.Answered(ms, Answer{Grant: []int{60}, Held: []HeldPiece{{Piece: 61}}, RetryAfter: 50 * ms})
	if step = s.Next(ms); !slices.Contains(step.Fetch, Fetch{Piece: 60}) || step.Request == nil ||
		step.Request.Want[0] != 62 {
		t.Errorf("granted 60, and 61 is coming: %+v", step)
	}
	s = newSwarm(100, 1)
	s.SetLimit(50)
	s.PeerHas(at(1), upTo(100, 60))
	if step = s.Next(0); step.Request != nil {
		t.Errorf("asks for %v, and has room for 50", step.Request.Want)
	}
}

// An urgent piece is requested at once, even far ahead of the window or beyond the limit.
func TestReadFarAheadIsAskedFor(t *testing.T) {
	for _, reach := range []int{40, 4} {
		s := newSwarm(40, 0)
		s.SetLimit(reach)
		s.Urgent(0, 30)
		s.Urgent(0, 2)
		step := s.Next(0)
		if step.Request == nil || step.Request.Want[0] != 30 ||
			!slices.Contains(step.Request.Want[:step.Request.Urgent], 2) {
			t.Fatalf("reach %d: %+v", reach, step.Request)
		}
		want := slices.Sorted(slices.Values(step.Request.Want))
		if len(slices.Compact(want)) != len(step.Request.Want) {
			t.Errorf("reach %d: %v asks twice for a piece", reach, step.Request.Want)
		}
	}
}

// A node with nothing to request soon sends a keep-alive. Otherwise the tracker would forget it and name it to no node
// that starts late.
func TestNodeWithNothingToAskSaysSo(t *testing.T) {
	s := newSwarm(2, 0)
	s.Next(0)
	s.Answered(ms, Answer{Grant: []int{0, 1}})
	s.Next(ms)
	s.Done(2*ms, Fetch{Piece: 0})
	s.SetLimit(1)
	if step := s.Next(3 * ms); step.Request != nil || step.Wake == 0 || step.Wake > keepAliveFirst {
		t.Fatalf("before it has all: %+v", step)
	}
	step := s.Next(keepAliveFirst)
	if step.Request == nil || len(step.Request.Want) > 0 {
		t.Fatalf("after a pause: %+v", step)
	}
	s.Answered(keepAliveFirst, Answer{})
	s.Urgent(keepAliveFirst, 1)
	s.Done(keepAliveFirst, Fetch{Piece: 1})
	if step = s.Next(keepAliveFirst + ms); step.Request != nil {
		t.Errorf("says again what it said: %+v", step.Request)
	}
	if step = s.Next(keepAliveFirst + keepAliveEvery); step.Request == nil {
		t.Error("says nothing for a minute")
	}
}

// A node that announces itself again because it has few peers still waits for the answer to its open request.
func TestJoinForPeersKeepsTheQuestion(t *testing.T) {
	s := newSwarm(40, 0)
	if s.Next(0).Request == nil {
		t.Fatal("asks nothing")
	}
	s.SetTracker(ms, true)
	if step := s.Next(ms); step.Request != nil {
		t.Errorf("asks again: %+v", step.Request)
	}
	s.TrackerForgot(2 * ms)
	if step := s.Next(2 * ms); step.Request != nil || !step.Join {
		t.Errorf("of a tracker that forgot it: %+v", step)
	}
	s.SetTracker(3*ms, true)
	if s.Next(3*ms).Request == nil {
		t.Error("does not ask the tracker that knows it again")
	}
}

func TestDemandGoesToTheOriginOnce(t *testing.T) {
	for name, x := range map[string]struct {
		fail, tracker bool
		late          time.Duration
	}{"peer fails": {fail: true}, "peer is late": {tracker: true, late: trackerTimeout},
		"nobody directs": {late: minHedge}} {
		t.Run(name, func(t *testing.T) {
			s := newSwarm(40, 2)
			s.SetTracker(0, x.tracker)
			s.PeerHas(at(1), upTo(40, 40))
			s.Urgent(0, 39)
			step := s.Next(0)
			from := slices.IndexFunc(step.Fetch, func(f Fetch) bool { return f.Piece == 39 })
			if from != 0 || step.Fetch[0].Origin() {
				t.Fatalf("a demand goes first, to a peer: %+v", step.Fetch)
			}
			first, now := step.Fetch[0], 10*ms
			cancelled := false
			if x.fail {
				s.Fail(now, first, Broken)
			} else if step = s.Next(now); len(step.Fetch) > 0 {
				t.Fatalf("hedged after 10 ms: %v", step.Fetch)
			} else {
				now = x.late
			}
			step = s.Next(now)
			cancelled = slices.Contains(step.Cancel, first)
			origin := Fetch{Piece: 39}
			if !slices.Contains(step.Fetch, origin) {
				t.Fatalf("the origin is not asked: %+v", step.Fetch)
			}
			if step = s.Next(now + 2*minHedge); slices.Contains(step.Fetch, origin) {
				t.Error("the origin is asked twice")
			}
			s.Done(now+2*minHedge, origin)
			if step = s.Next(now + 2*minHedge); !x.fail && !cancelled && !slices.Contains(step.Cancel, first) {
				t.Errorf("the transfer that lost is not cancelled: %+v", step)
			}
		})
	}
}

func TestDemandWithoutAnybodyIsTheOrigins(t *testing.T) {
	s := newSwarm(40, 0)
	s.SetTracker(0, false)
	s.Urgent(0, 30)
	if step := s.Next(0); len(step.Fetch) == 0 || step.Fetch[0] != (Fetch{Piece: 30}) {
		t.Errorf("%+v", step.Fetch)
	}
}

func TestWrongBytesBanForGood(t *testing.T) {
	s := newSwarm(40, 1)
	s.PeerHas(at(1), upTo(40, 40))
	step := s.Next(0)
	s.Fail(ms, step.Fetch[0], Corrupt)
	step = s.Next(ms)
	if !slices.Equal(step.Corrupt, []netip.AddrPort{at(1)}) || s.Peers() != 0 {
		t.Errorf("reported %v, %d peers", step.Corrupt, s.Peers())
	}
	if other := netip.AddrPortFrom(at(1).Addr(), 9999); len(s.AddPeers(time.Hour, at(1), other)) > 0 {
		t.Error("met again")
	}
	for _, f := range s.Next(2 * ms).Fetch {
		if f.Peer == at(1) {
			t.Errorf("asked again: %v", f)
		}
	}
}

func TestSlowPeerIsLeft(t *testing.T) {
	s := newSwarm(200, 2)
	s.PeerHas(at(1), upTo(200, 200))
	s.PeerHas(at(2), upTo(200, 200))
	now := time.Duration(0)
	for range 300 { // peer 1 takes a millisecond, peer 2 never finishes
		step := s.Next(now)
		for _, f := range slices.Clone(step.Fetch) {
			if f.Peer == at(1) {
				s.Done(now+ms, f)
			}
		}
		now += ms
		if s.find(at(2)) == nil {
			break
		}
	}
	if s.find(at(2)) != nil || len(s.AddPeers(now, at(2))) > 0 {
		t.Errorf("the slow peer is still there after %v", now)
	}
	if s.find(at(1)) == nil {
		t.Error("the other one was left too")
	}
}

func TestLostTracker(t *testing.T) {
	s := newSwarm(40, 0)
	if step := s.Next(0); step.Request == nil || len(step.Fetch) > 0 {
		t.Fatalf("step %+v", step)
	}
	// The tracker does not answer: the node goes on without it, and announces itself again later.
	step := s.Next(trackerTimeout)
	if len(step.Fetch) == 0 || !step.Fetch[0].Origin() {
		t.Fatalf("step %+v", step)
	}
	if step.Wake == 0 || !s.Next(trackerTimeout+minRejoin).Join {
		t.Error("does not look for the tracker again")
	}
	if s.Next(trackerTimeout + minRejoin + ms).Join {
		t.Error("joins without a pause")
	}
}

func TestPeerThatLeavesCountsNoMore(t *testing.T) {
	s := newSwarm(40, 1)
	s.PeerHas(at(1), upTo(40, 40))
	s.PeerLeft(at(1))
	if step := s.Next(0); len(step.Fetch) > 0 || step.Request == nil || step.Request.Want[0] != 0 {
		t.Errorf("step %+v", step)
	}
}

func TestHostileHavesAreIgnored(t *testing.T) {
	s := newSwarm(10, 1)
	for _, b := range []Bitmap{nil, {1}, {0xff, 0xff}, {1, 2, 3}} {
		s.PeerHas(at(1), b)
	}
	for _, p := range []int{-1, 10, 1 << 20} {
		s.PeerGot(at(1), p)
	}
	s.PeerGot(at(99), 0)
	if step := s.Next(0); len(step.Fetch) > 0 {
		t.Errorf("believed %v", step.Fetch)
	}
	s.Answered(0, Answer{Grant: []int{-1, 10}, Held: []HeldPiece{{Piece: -1}, {Piece: 10}}})
	if step := s.Next(0); len(step.Fetch) > 0 {
		t.Errorf("fetches %v", step.Fetch)
	}
}

func TestUploads(t *testing.T) {
	var u Uploads
	for range MaxUploads {
		if !u.Start() {
			t.Fatal("refused too early")
		}
	}
	if u.Start() {
		t.Error("one too many")
	}
	u.Done()
	if !u.Start() {
		t.Error("does not go on after one has ended")
	}
}

// A busy peer is asked again after the usual transfer time, because its slots are not free sooner. For an urgent piece
// it is asked sooner.
func TestBusyPeersAreLeftInPeace(t *testing.T) {
	const takes = 4 * time.Second
	for _, waits := range []bool{false, true} {
		s := newSwarm(40, 1)
		s.PeerHas(at(1), upTo(40, 39))
		now := time.Duration(0)
		for n := range learnSamples {
			now += takes
			s.pieces[n].transfers++
			s.transfers = append(s.transfers, transfer{Fetch{n, at(1)}, now - takes})
			s.fromPeers++
			s.find(at(1)).transfers++
			s.Done(now, Fetch{n, at(1)})
		}
		asked := 0
		end := now + takes
		for ; now < end; now += 50 * ms {
			if waits {
				s.Urgent(now, 20)
			}
			for _, f := range slices.Clone(s.Next(now).Fetch) {
				if !f.Origin() {
					asked++
					s.Fail(now, f, Busy)
				}
			}
		}
		if most := 2 * 2; !waits && (asked == 0 || asked > most) || waits && asked <= most {
			t.Errorf("in the time of a takes a busy peer was asked %d times; a read waits: %v", asked, waits)
		}
	}
}

// The pause grows each time that a peer is busy again, up to one and a half transfer times.
func TestBusyAgainIsAskedLater(t *testing.T) {
	s := newSwarm(40, 1)
	s.PeerHas(at(1), upTo(40, 39))
	s.peerTime, s.peerSamples = 4*time.Second, learnSamples
	last := time.Duration(0)
	for range 8 {
		s.begin(0, Fetch{3, at(1)})
		s.Fail(0, Fetch{3, at(1)}, Busy)
		k := s.find(at(1))
		if k.askAfter < last || k.urgentAfter > busyWaitMax {
			t.Errorf("asked again after %v, before %v; where a read waits %v", k.askAfter, last, k.urgentAfter)
		}
		last = k.askAfter
	}
	if last != s.peerTime*3/2 {
		t.Errorf("in the end it is asked after %v", last)
	}
}
