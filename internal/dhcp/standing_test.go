package dhcp

import (
	"net/netip"
	"testing"
	"time"
)

// world is one interface's standing with a clock.
type world struct {
	standing
	own netip.Addr
	now time.Time
	id  uint32
}

func newWorld(mode Mode, own string) *world {
	return &world{standing: standing{mode: mode, pace: usualPace()}, own: ip4(own), now: noon}
}

// wait advances the clock; each question that is due gets its answers.
func (w *world) wait(d time.Duration, answers ...Found) (did []change) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(watchEvery) {
		if w.now.Before(w.next()) {
			continue
		}
		w.id += 2
		w.ask(question{[2]uint32{w.id, w.id + 1}, w.now})
		for _, f := range answers {
			if c := w.answer(f, w.id, w.own, w.now); c != nothing {
				did = append(did, c)
			}
			w.answer(f, w.id+1, w.own, w.now) // a second answer to the same question does not count
		}
		w.expire(w.now)
	}
	return did
}

func dhcpServer(addr, pando string) Found {
	return Found{Server: ip4(addr), Offers: ip4("10.77.0.50"), Pando: pando, How: howOffer}
}

// Only a server that answered two questions stops this one, and only for as long as it keeps answering.
func TestStanding(t *testing.T) {
	w := newWorld(Own, "10.77.0.1")
	w.wait(time.Minute)
	answering := dhcpServer("10.77.0.2", "")
	for range 100 {
		w.answer(answering, 12345, w.own, w.now)
		w.overheard(Found{Server: answering.Server, How: howRequest}, w.now)
	}
	if w.stopped.IsValid() || len(w.others) != 0 {
		t.Fatalf("forged packets stopped it: %+v", w.others)
	}
	asked := len(w.asked)
	if w.wait(2 * time.Second); w.looks == asked {
		t.Error("what was overheard has nobody ask")
	}
	before := w.looks
	for range 100 {
		w.overheard(Found{Server: answering.Server, How: howRequest}, w.now)
		w.wait(watchEvery)
	}
	if n := w.looks - before; n > 6 {
		t.Errorf("%d questions in 50 s because of what was overheard", n)
	}
	w.wait(time.Minute)
	if did := w.wait(watchEvery*2, answering); w.stopped.IsValid() {
		t.Errorf("stopped by one answer: %v", did)
	}
	w.wait(2*time.Minute, answering)
	if w.stopped != answering.Server || w.settled(w.now) {
		t.Fatalf("not stopped: %+v", w.standing)
	}
	w.wait(30 * time.Second)
	if !w.stopped.IsValid() {
		t.Error("given again after 30 s of silence")
	}
	w.wait(30 * time.Second)
	if w.stopped.IsValid() || len(w.others) != 0 {
		t.Errorf("not given again after a minute of silence: %+v", w.others)
	}
}

// Of two Pandos that give addresses exactly one goes on, whatever they know of each other.
func TestTwoPandos(t *testing.T) {
	for _, lead := range []time.Duration{-time.Hour, -10 * time.Second, -3 * time.Second, -time.Second, 0, time.Second,
		3 * time.Second, 10 * time.Second, time.Hour} {
		a, b := newWorld(Own, "10.77.0.1"), newWorld(Own, "10.77.0.2")
		both := []*world{a, b}
		starts := []time.Time{noon.Add(max(0, lead)), noon.Add(max(0, -lead))}
		for now := noon; now.Before(noon.Add(2 * time.Hour)); now = now.Add(watchEvery) {
			for i, w := range both {
				w.now = now
				if now.Before(starts[i]) || now.Before(w.next()) {
					continue
				}
				w.id += 2
				w.ask(question{[2]uint32{w.id, w.id + 1}, now})
				if o := both[1-i]; !now.Before(starts[1-i]) && !o.stopped.IsValid() {
					w.answer(dhcpServer(o.own.String(), o.rank(now)), w.id, w.own, now)
				}
				w.expire(now)
			}
		}
		if a.stopped.IsValid() == b.stopped.IsValid() {
			t.Errorf("started %s apart: stopped for %s and %s", lead, a.stopped, b.stopped)
		}
		if (lead == -time.Hour && a.stopped.IsValid()) || (lead == time.Hour && b.stopped.IsValid()) {
			t.Errorf("started %s apart: the elder stopped", lead)
		}
	}
}

// Forged packets cannot fill the list of servers: a real server still gets a place.
func TestOthersAreBounded(t *testing.T) {
	for _, mode := range []Mode{Own, Proxy} {
		w := newWorld(mode, "10.77.0.1")
		for i := range 1000 {
			w.overheard(Found{Server: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), How: howRequest}, w.now)
		}
		w.wait(10*time.Minute, dhcpServer("10.77.0.2", ""))
		if len(w.others) > maxOthers || len(w.asked) > maxQuestions {
			t.Errorf("%s: %d servers, %d questions", mode, len(w.others), len(w.asked))
		}
		listed := false
		for _, f := range w.found() {
			listed = listed || f.Server == ip4("10.77.0.2") && f.How == howOffer
		}
		if !listed || w.stopped.IsValid() != (mode == Own) {
			t.Errorf("%s: %+v", mode, w.standing)
		}
	}
}
