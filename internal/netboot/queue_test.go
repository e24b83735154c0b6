package netboot

import (
	"math/rand/v2"
	"testing"
	"time"

	"pando/internal/fleet"
)

// queueOf returns a queue with a number of slots, in which a load takes a time.
func queueOf(slots int, took time.Duration) *Queue {
	share := leastK / took.Seconds()
	return NewQueue(Links{Server: int64(float64(slots) * share), Node: int64(2 * share)})
}

// machineKind is how a machine of the tests behaves.
type machineKind int

const (
	good      machineKind = iota // requests when told, loads at some speed
	breaks                       // breaks its first load off, requests again after five seconds
	stalls                       // stops in its first load and is reset after a minute
	gone                         // is turned off during its load
	dawdles                      // requests up to a minute later than told
	forgotten                    // requests once
	kinds
)

// machine is a machine on a virtual clock.
type machine struct {
	kind   machineKind
	mac    fleet.MAC
	next   time.Time // when it does something; zero: never again
	number uint64    // of its transfer, when it loads
	tries  int
	first  int       // place in the order of first requests
	passed bool      // a machine that requested later has a slot
	loads  bool      // it has its script
	done   time.Time // it has kernel+initrd
}

// storm is machines and a queue.
type storm struct {
	t        *testing.T
	q        *Queue
	now      time.Time
	random   *rand.Rand
	machines []*machine
	asked    int
	load     time.Duration // of one machine
	strict   bool          // no machine is late
	requests bool          // the requests of machines that load soon are held open
}

const tick = 100 * time.Millisecond

func newStorm(t *testing.T, seed uint64, n, slots int, load time.Duration, of ...machineKind) *storm {
	s := &storm{t: t, q: queueOf(slots, load), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		random: rand.New(rand.NewPCG(seed, 1)), load: load, strict: true}
	for i := range n {
		m := &machine{kind: of[s.random.IntN(len(of))], mac: fleet.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, first: -1}
		m.next = s.now.Add(time.Duration(s.random.IntN(100)) * tick)
		s.strict = s.strict && m.kind != dawdles && m.kind != forgotten
		s.machines = append(s.machines, m)
	}
	return s
}

// run advances the clock until no machine has anything to do, and returns the time.
func (s *storm) run(limit time.Duration) time.Duration {
	s.t.Helper()
	began := s.now
	for busy := true; busy; s.now = s.now.Add(tick) {
		if s.now.Sub(began) > limit {
			s.t.Fatalf("not over after %s: %+v", limit, s.q.State(s.now))
		}
		busy = false
		s.call()
		for _, i := range s.random.Perm(len(s.machines)) {
			m := s.machines[i]
			if m.next.IsZero() {
				continue
			}
			busy = true
			if !s.now.Before(m.next) {
				s.act(m)
			}
			if st := s.q.State(s.now); st.Loading > st.Slots || st.Loading < 0 || st.Waiting > len(s.machines) {
				s.t.Fatalf("%+v", st)
			}
		}
	}
	return s.now.Sub(began)
}

func (s *storm) act(m *machine) {
	if m.loads {
		s.transfer(m)
		return
	}
	answer := s.q.Request(s.now, m.mac)
	if m.first < 0 {
		m.first = s.asked
		s.asked++
	}
	if answer.Place > 0 {
		s.waits(m, answer)
		return
	}
	for _, other := range s.machines {
		if other.first >= 0 && other.first < m.first && !other.loads && other.done.IsZero() {
			other.passed = true
		}
	}
	m.loads, m.passed = true, false
	m.tries++
	m.number = s.q.Begin(s.now, m.mac)
	if m.number == 0 {
		s.t.Errorf("%v may load and has no slot", m.mac)
	}
	m.next = s.now.Add(s.load/2 + time.Duration(s.random.Int64N(int64(s.load))))
}

// call admits machines whose held requests have a slot now.
func (s *storm) call() {
	for _, mac := range s.q.Called(s.now) {
		for _, m := range s.machines {
			if m.mac == mac {
				m.next = s.now
			}
		}
	}
}

func (s *storm) waits(m *machine, answer Admission) {
	if s.requests && answer.Hold > 0 {
		s.q.Hold(s.now, m.mac, held)
		m.next = s.now.Add(answer.Hold)
		return
	}
	if m.passed && s.strict {
		s.t.Errorf("%v was overtaken, and waits again", m.mac)
	}
	if answer.Sleep < time.Second || answer.Sleep > longestSleep || answer.Sleep%time.Second != 0 ||
		answer.Expect <= 0 {
		s.t.Errorf("turn %+v", answer)
	}
	m.next = s.now.Add(answer.Sleep)
	switch m.kind {
	case forgotten:
		m.next = time.Time{}
	case dawdles:
		m.next = m.next.Add(time.Duration(s.random.IntN(600)) * tick)
	}
}

// transfer is the end of a load.
func (s *storm) transfer(m *machine) {
	m.loads = false
	switch {
	case m.kind == gone:
		m.next = time.Time{}
	case m.kind == breaks && m.tries == 1:
		s.q.End(s.now, m.mac, m.number)
		m.next, m.first = s.now.Add(5*time.Second), -1 // it lost its place
	case m.kind == stalls && m.tries == 1:
		m.next, m.first = s.now.Add(time.Minute), -1
	default:
		s.q.End(s.now, m.mac, m.number)
		m.done, m.next = s.now, time.Time{}
	}
}

// TestQueueDrains: whatever machines do, no more of them load than there are slots, and all that stay get to load, in
// about the time that the loads take.
func TestQueueDrains(t *testing.T) {
	all := []machineKind{good, good, good, breaks, stalls, gone, dawdles, forgotten}
	for seed := range uint64(40) {
		n, slots := 10+int(seed)*5, 2+int(seed)%9
		s := newStorm(t, seed, n, slots, time.Duration(1+seed%5)*700*time.Millisecond, all...)
		s.requests = seed%2 == 1
		rounds := time.Duration(n/slots + 2)
		took := s.run(2*time.Minute + rounds*(3*s.load+3*time.Second+silent/3))
		for _, m := range s.machines {
			if stays := m.kind != gone && m.kind != forgotten; stays && m.done.IsZero() {
				t.Errorf("seed %d: machine %v (kind %d) never loaded in %s", seed, m.mac, m.kind, took)
			}
		}
		if st := s.q.State(s.now.Add(longest + lost)); st.Loading != 0 || st.Waiting != 0 {
			t.Errorf("seed %d: in the end %+v", seed, st)
		}
	}
}

// TestQueueKeepsOrder: a machine that requests on time loses nothing if another one overtakes it: at its next request a
// slot is free. Failed loads do not change that.
func TestQueueKeepsOrder(t *testing.T) {
	for seed := range uint64(40) {
		s := newStorm(
			t,
			seed,
			60,
			2+int(seed)%9,
			time.Duration(1+seed%5)*700*time.Millisecond,
			good,
			good,
			breaks,
			stalls,
			gone,
		)
		s.run(time.Hour)
	}
}

// TestQueueKeepsTheLinkBusy: many machines together take not much longer than their loads one after another.
func TestQueueKeepsTheLinkBusy(t *testing.T) {
	for _, l := range []Links{{Server: 125e6, Node: 125e6}, {Server: 125e6, Node: 12.5e6},
		{Server: 12.5e6, Node: 12.5e6}, {Server: 1250e6, Node: 125e6}} {
		s := newStorm(t, 1, 200, l.Slots(), l.Load(), good)
		s.requests = true
		took := s.run(time.Hour)
		// A machine of the test loads as slowly as with all slots taken, so an empty slot is lost time. On a real link
		// the other machines use it. A slot is empty for a tick each time.
		ideal := 200 * (l.Load() + tick) / time.Duration(l.Slots())
		if took > ideal*5/4+15*time.Second {
			t.Errorf("%+v: %d slots, %s; the link alone takes %s", l, l.Slots(), took, ideal)
		}
	}
}

func TestQueueSmallSiteNoticesNothing(t *testing.T) {
	q, now := queueOf(4, time.Second), time.Unix(1000, 0)
	for round := range 3 {
		for i := range byte(4) {
			at := now.Add(time.Duration(round) * time.Second)
			if answer := q.Request(at, fleet.MAC{5: i}); answer != (Admission{}) {
				t.Errorf("machine %d is told %+v", i, answer)
			}
		}
	}
	if answer := q.Request(now.Add(3*time.Second), fleet.MAC{5: 9}); answer.Place != 1 || answer.Sleep != time.Second {
		t.Errorf("one too many is told %+v", answer)
	}
}

// A transfer that began before a machine's reset does not count for its new load.
func TestQueueStaleTransfer(t *testing.T) {
	q, now, mac := queueOf(2, time.Second), time.Unix(1000, 0), fleet.MAC{5: 1}
	q.Request(now, mac)
	old := q.Begin(now, mac)
	q.Request(now.Add(5*time.Second), mac)
	q.End(now.Add(6*time.Second), mac, old)
	if st := q.State(now.Add(6 * time.Second)); st.Loading != 1 {
		t.Errorf("after the end of the old transfer: %+v", st)
	}
	q.SawTransfer(now.Add(20*time.Second), mac, old, 1)
	if st := q.State(now.Add(26 * time.Second)); st.Loading != 0 {
		t.Errorf("bytes of the old transfer keep the slot: %+v", st)
	}
	if n := q.Begin(now.Add(27*time.Second), mac); n == 0 {
		t.Error("a transfer that comes after all is not counted though there is a free slot")
	}
}

// A transfer continues for as long as bytes are sent, but a slot ends after a time.
func TestQueueSlowLoad(t *testing.T) {
	q, now, mac := queueOf(2, time.Second), time.Unix(1000, 0), fleet.MAC{5: 1}
	q.Request(now, mac)
	number := q.Begin(now, mac)
	for at := time.Duration(0); at <= longest; at += silent / 2 {
		q.SawTransfer(now.Add(at), mac, number, 1)
		if st := q.State(now.Add(at)); st.Loading != 1 {
			t.Fatalf("after %s: %+v", at, st)
		}
	}
	if st := q.State(now.Add(longest + 1)); st.Loading != 0 {
		t.Errorf("after %s: %+v", longest, st)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q, now := queueOf(2, time.Second), time.Unix(1000, 0)
	for i := range maxQueue + 100 {
		q.Request(now, fleet.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	if st := q.State(now); st.Waiting != maxQueue || st.Loading != 2 {
		t.Errorf("%+v", st)
	}
}

func TestSlots(t *testing.T) {
	const mbit = 125_000
	tests := []struct {
		server, node int64
		slots        int
		load         time.Duration
	}{
		{1000 * mbit, 1000 * mbit, 2, 192 * time.Millisecond}, // 2 S/B
		{1000 * mbit, 100 * mbit, 20, 1920 * time.Millisecond},
		{100 * mbit, 100 * mbit, 2, 1920 * time.Millisecond},
		{100 * mbit, 1000 * mbit, 2, 1920 * time.Millisecond}, // never less than two
		{10_000 * mbit, 1000 * mbit, 20, 192 * time.Millisecond},
		{100_000 * mbit, 10 * mbit, 1024, 9600 * time.Millisecond}, // bounded
	}
	for _, tt := range tests {
		l := Links{tt.server, tt.node, false}
		if got, load := l.Slots(), l.Load().Truncate(time.Millisecond); got != tt.slots || load != tt.load {
			t.Errorf("%+v: %d slots, a load takes %s; want %d, %s", l, got, load, tt.slots, tt.load)
		}
		if rest := time.Duration(float64(l.Rest()) * float64(tt.load) / leastK); rest < turnaround*99/100 ||
			rest > turnaround*101/100 {
			t.Errorf("%+v: the rest of a load takes %s, the next one begins within %s", l, rest, turnaround)
		}
	}
}

// A late machine does not delay the others, and has its place when it comes.
func TestQueueOverdue(t *testing.T) {
	q, now := queueOf(2, time.Second), time.Unix(1000, 0)
	a, b, first, second, third := fleet.MAC{5: 1}, fleet.MAC{5: 2}, fleet.MAC{5: 3}, fleet.MAC{5: 4}, fleet.MAC{5: 5}
	for _, mac := range []fleet.MAC{a, b, first, second, third} {
		q.Request(now, mac)
	}
	q.End(now, a, q.Begin(now, a))
	now = now.Add(time.Second)
	if answer := q.Request(now, second); answer.Place != 2 {
		t.Errorf("the second took the slot that the first is expected to take: %+v", answer)
	}
	now = now.Add(overdue + time.Second)
	if answer := q.Request(now, second); answer.Place != 0 {
		t.Errorf("the second waits for the first, which does not come: %+v", answer)
	}
	if answer := q.Request(now, third); answer.Place != 2 {
		t.Errorf("third: %+v", answer)
	}
	if answer := q.Request(now, first); answer.Place != 1 {
		t.Errorf("the first lost its place: %+v", answer)
	}
	now = now.Add(overdue + 2*time.Second)
	q.End(now, b, q.Begin(now, b))
	if answer := q.Request(now, third); answer.Place != 2 {
		t.Errorf("the third took the slot of the first, who was known to come late: %+v", answer)
	}
	now = now.Add(lost + 10*time.Second)
	if st := q.State(now); st.Waiting != 0 {
		t.Errorf("nobody came, and there wait %d", st.Waiting)
	}
}

// A free slot goes at once to the machines whose requests are held open, in the order of their first requests, and
// before sleeping ones.
func TestQueueHoldOfRequests(t *testing.T) {
	q, now := queueOf(2, time.Second), time.Unix(1000, 0)
	mac := func(i byte) fleet.MAC { return fleet.MAC{5: i} }
	for i := range byte(12) {
		answer := q.Request(now, mac(i))
		if soon := i >= 2 && i < 6; (answer.Hold > 0) != soon {
			t.Errorf("machine %d: %+v", i, answer)
		}
	}
	for _, i := range []byte{5, 4, 3} { // machine 2 sleeps
		q.Hold(now, mac(i), held)
	}
	if called := q.Called(now); called != nil {
		t.Errorf("with all slots taken: %v", called)
	}
	now = now.Add(300 * time.Millisecond)
	q.End(now, mac(0), q.Begin(now, mac(0)))
	if called := q.Called(now); len(called) != 1 || called[0] != mac(3) {
		t.Errorf("one slot is free: %v", called)
	}
	if answer := q.Request(now, mac(3)); answer.Place != 0 {
		t.Errorf("who was called: %+v", answer)
	}
	q.Leave(mac(4))
	q.End(now, mac(1), q.Begin(now, mac(1)))
	if called := q.Called(now); len(called) != 1 || called[0] != mac(5) {
		t.Errorf("the fourth hung up: %v", called)
	}
	if answer := q.Request(now.Add(time.Second), mac(2)); answer.Place != 1 || answer.Hold == 0 {
		t.Errorf("who slept: %+v", answer)
	}
	q.Hold(now.Add(time.Second), mac(2), held)
	now = now.Add(1100 * time.Millisecond)
	q.End(now, mac(3), q.Begin(now, mac(3)))
	if called := q.Called(now); len(called) != 1 || called[0] != mac(2) {
		t.Errorf("who slept comes first: %v", called)
	}
	if st := q.State(now); st.Loading != 2 || st.Waiting != 7 {
		t.Errorf("%+v", st)
	}
}

// The first waiting nodes leave the server's slots to others while as many nodes serve, but not for ever.
func TestQueueLeavesToNodes(t *testing.T) {
	mac := func(i byte) fleet.MAC { return fleet.MAC{2, 0, 0, 0, 0, i} }
	q, now := NewQueue(Links{Server: 1e6, Node: 1e6, Passed: true}), time.Unix(1e9, 0)
	if got := q.RequestAfter(now, mac(1), 2); got.Place != 1 {
		t.Errorf("two nodes serve: %+v", got)
	}
	if got := q.RequestAfter(now, mac(2), 2); got.Place != 2 {
		t.Errorf("two nodes serve: %+v", got)
	}
	q.Hold(now, mac(1), time.Minute)
	q.Hold(now, mac(2), time.Minute)
	if called := q.Called(now); called != nil {
		t.Errorf("called: %v", called)
	}
	if got := q.RequestAfter(now, mac(3), 2); got.Place != 0 {
		t.Errorf("the third: %+v", got)
	}
	q.End(now, mac(3), q.Begin(now, mac(3)))
	now = now.Add(inVain*q.took + time.Second)
	if called := q.Called(now); len(called) != 1 || called[0] != mac(1) {
		t.Errorf("called, after long: %v", called)
	}
	q.Drop(mac(2))
	if s := q.State(now); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
