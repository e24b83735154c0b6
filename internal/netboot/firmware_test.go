package netboot

import (
	"testing"
	"time"

	"pando/internal/fleet"
)

// step is the length of a clock step in a site.
const step = 10 * time.Millisecond

// site is a server and nodes that share its link; their firmware has some rate. There is always one more node to load.
type site struct {
	q        *Queue
	now      time.Time
	firmware float64 // bytes a second
	ends     func(node int) (after float64, silent bool)
	loads    []*loading
	nodes    int // so far
}

// loading is a node that loads.
type loading struct {
	mac    fleet.MAC
	number uint64
	begins time.Time
	left   float64
	stop   float64 // bytes left when it breaks off or goes silent
	silent bool
}

func newSite(l Links) *site {
	return &site{q: NewQueue(l), now: time.Unix(1000, 0), ends: func(int) (float64, bool) { return 0, false }}
}

// admit gives scripts to as many nodes as may load.
func (s *site) admit() {
	for {
		mac := fleet.MAC{2, 0, 0, byte(s.nodes >> 16), byte(s.nodes >> 8), byte(s.nodes)}
		if s.q.Request(s.now, mac).Place > 0 {
			return
		}
		x := &loading{mac: mac, begins: s.now.Add(turnaround), left: leastK}
		x.stop, x.silent = s.ends(s.nodes)
		s.loads = append(s.loads, x)
		s.nodes++
	}
}

// pass advances the clock by a step. Each loading node gets its share of the link, or what its firmware takes.
func (s *site) pass() {
	s.admit()
	s.now = s.now.Add(step)
	var active []*loading
	for _, x := range s.loads {
		if !s.now.Before(x.begins) && !(x.silent && x.left <= x.stop) {
			active = append(active, x)
		}
	}
	for _, x := range active {
		s.send(x, min(s.firmware, float64(s.q.set.Server)/float64(len(active)))*step.Seconds())
	}
	kept := s.loads[:0]
	for _, x := range s.loads {
		if x.left > x.stop || x.silent && s.q.loading[x.mac] != nil {
			kept = append(kept, x)
		}
	}
	s.loads = kept
}

func (s *site) send(x *loading, bytes float64) {
	if x.number == 0 {
		x.number = s.q.Begin(s.now, x.mac)
	}
	bytes = min(bytes, x.left)
	x.left -= bytes
	s.q.SawTransfer(s.now, x.mac, x.number, int64(bytes))
	if x.left <= float64(s.q.Rest()) || x.left <= x.stop && !x.silent {
		s.q.End(s.now, x.mac, x.number)
	}
}

// load advances the clock by a time, with firmware of some rate, and returns the fewest and most slots of its second
// half.
func (s *site) load(firmware float64, during time.Duration) (least, most int) {
	s.firmware = firmware
	least = 1 << 30
	for end, half := s.now.Add(during), s.now.Add(during/2); s.now.Before(end); {
		s.pass()
		if s.now.After(half) {
			slots := s.q.State(s.now).Slots
			least, most = min(least, slots), max(most, slots)
		}
	}
	return least, most
}

const mbit = 125_000

// If the firmware of nodes takes only a part of their links, as many nodes are admitted as fill the server's link, and
// at most twice as many. If it takes more again, the number of slots goes back to the first one.
func TestQueueLearnsFirmware(t *testing.T) {
	for _, x := range []struct {
		links       Links
		firmware    float64
		least, most int
	}{
		{Links{1000 * mbit, 1000 * mbit, false}, 150 * mbit, 4, 13},
		{Links{1000 * mbit, 1000 * mbit, false}, 100 * mbit, 7, 16},
		{Links{1000 * mbit, 1000 * mbit, false}, 600 * mbit, 2, 2},
		{Links{1000 * mbit, 100 * mbit, false}, 100 * mbit, 20, 20},
		{Links{10_000 * mbit, 1000 * mbit, false}, 200 * mbit, 35, 100},
		{Links{100 * mbit, 1000 * mbit, false}, 20 * mbit, 3, 10},
		{Links{1000 * mbit, 1000 * mbit, false}, 10 * mbit, 16, 16}, // the links alone allow 200
	} {
		s := newSite(x.links)
		before := x.links.Slots()
		during := time.Duration(
			300*before*leastK/int(min(float64(x.links.Server), float64(before)*x.firmware)),
		) * time.Second
		for range 2 {
			if least, most := s.load(x.firmware, during); least < x.least || most > x.most {
				t.Errorf(
					"%+v, firmware of %.0f Mb/s: %d to %d slots, want %d to %d",
					x.links,
					x.firmware/mbit,
					least,
					most,
					x.least,
					x.most,
				)
			}
			if least, most := s.load(float64(x.links.Node), during); least != before || most != before {
				t.Errorf(
					"%+v, after firmware of %.0f Mb/s, with fast one: %d to %d slots, want %d",
					x.links,
					x.firmware/mbit,
					least,
					most,
					before,
				)
			}
		}
	}
}

// Nodes that break off, stall or are turned off do not count as slow firmware. If they leave the link idle all the
// same, more nodes are admitted, within bounds. Afterwards the number of slots goes back to the first one.
func TestQueueLearnsNothingOfFailures(t *testing.T) {
	links := Links{1000 * mbit, 1000 * mbit, false}
	for name, x := range map[string]struct {
		most int
		ends func(int) (float64, bool)
	}{
		"one of four breaks off": {2,
			func(n int) (float64, bool) { return float64(1-min(n%4, 1)) * leastK * 0.7, false }},
		"one of twenty stands still": {2,
			func(n int) (float64, bool) { return float64(1-min(n%20, 1)) * leastK * 0.9, n%20 == 0 }},
		"all stand still":             {2, func(n int) (float64, bool) { return leastK * 0.9, true }},
		"all are turned off":          {2, func(n int) (float64, bool) { return leastK, true }},
		"all break off at the kernel": {maxSlowNodes * 2, func(n int) (float64, bool) { return leastK * 0.99, false }},
		"two stand still, and no more": {2,
			func(n int) (float64, bool) { return float64(1-min(n/2, 1)) * leastK * 0.9, n < 2 }},
	} {
		s := newSite(links)
		s.ends = x.ends
		_, most := s.load(1000*mbit, 2*time.Minute)
		if most > x.most {
			t.Errorf("%s: %d slots", name, most)
		}
		s.ends = func(int) (float64, bool) { return 0, false }
		if _, most := s.load(1000*mbit, 3*time.Minute); most != links.Slots() {
			t.Errorf("%s, and no more: %d slots", name, most)
		}
	}
}

// A clock that does not advance, empty loads, and transfers of unknown nodes change nothing.
func TestQueueLearnsNothingOfNothing(t *testing.T) {
	q, now := NewQueue(Links{1000 * mbit, 1000 * mbit, false}), time.Unix(1000, 0)
	for i := range byte(200) {
		mac := fleet.MAC{5: i}
		q.Request(now, mac)
		number := q.Begin(now, mac)
		q.SawTransfer(now, mac, number, int64(i%2)*leastK)
		q.End(now, mac, number)
		q.SawTransfer(now, mac, number, 0)
		q.SawTransfer(now, fleet.MAC{}, 0, leastK)
		q.End(now, fleet.MAC{}, 0)
	}
	if st := q.State(now); st.Slots != 2 || st.Loading != 0 {
		t.Errorf("%+v", st)
	}
	if q := NewQueue(Links{1, 1, false}); q.slowest() < 1 || q.Rest() != 0 {
		t.Errorf("links of a byte a second: %d, %d", q.slowest(), q.Rest())
	}
}
