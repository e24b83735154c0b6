package swarm

import (
	"testing"
	"time"

	"pando/internal/chunk"
)

// The first boots of an image, or of a rack that shares within itself, get the bootstrap files from the server at once,
// although another swarm fills the uplink. They get 1/firstShare of it. If a node has the files, boots wait for it.
func TestFirstJoinDoesNotWait(t *testing.T) {
	tr := newTracker() // a join takes 10 ms of the uplink
	tr.uplink.charge(0, 10_000_000)
	start := JoinRequest{Swarm: "second image", Size: 1000}
	sent := 0
	for now := time.Duration(0); now < time.Second; now += ms {
		if peers, wait := tr.bootstrap(now, start); !wait && peers == nil {
			if sent++; sent == 1 && now > 0 {
				t.Errorf("the first one waited for %v", now)
			}
		}
	}
	if most := int(time.Second / (firstShare * 10 * ms)); sent != most {
		t.Errorf("%d starts in a second, want %d: a part of the uplink", sent, most)
	}
	rack := JoinRequest{Swarm: "p", Size: 1000, LocalOnly: true, Location: "r2"}
	for n, place := range map[byte]string{1: "r1", 2: "r1"} {
		tr.Announce(2*time.Second, Announcement{Swarm: "p", Pieces: 40, Node: at(n), LocalOnly: true, Location: place})
	}
	if peers, wait := tr.bootstrap(2*time.Second, rack); wait || peers != nil {
		t.Errorf("first of its rack: %v, wait %v", peers, wait)
	}
	rack.Location = "r1"
	for range 2 {
		if peers, wait := tr.bootstrap(3*time.Second, rack); wait || len(peers) == 0 {
			t.Errorf("two have it: %v, wait %v", peers, wait)
		}
	}
	if peers, wait := tr.bootstrap(3*time.Second, rack); !wait {
		t.Errorf("two have it and gave it just now: %v", peers)
	}
	// Nodes from before a power cut do not count as holders.
	tr.uplink.charge(time.Hour, 10_000_000)
	if peers, wait := tr.bootstrap(time.Hour, rack); wait || peers != nil {
		t.Errorf("all are silent for an hour: %v, wait %v", peers, wait)
	}
}

// A node that sends join requests again and again, and does not fetch the files, is charged once a minute.
func TestJoinsOfOneAddressAreCountedOnce(t *testing.T) {
	s := claims()
	pack := chunk.Sum([]byte("pack")).String()
	start := JoinRequest{Swarm: pack, Size: 100 << 10}
	once := s.uplink.time(start.Size)
	for range 1000 {
		if a, ok := s.tryJoin(0, start, at(9).Addr()); !ok || a.Peers != nil {
			t.Fatalf("with room: %+v, %v", a, ok)
		}
	}
	if until := s.uplink.busyUntil - 0; until > once {
		t.Errorf("the uplink is spent for %v, one start takes %v", until, once)
	}
	s.uplink.charge(0, 100<<20) // another transfer takes the whole uplink
	if a, ok := s.tryJoin(0, start, at(9).Addr()); !ok || a.Peers != nil || s.firstAfter != 0 {
		t.Errorf("without room: %+v, %v", a, ok)
	}
	s.Announce(0, Announcement{Swarm: pack, Pieces: 40, Node: at(1)})
	for range 100 {
		if a, ok := s.tryJoin(0, start, at(9).Addr()); !ok || len(a.Peers) != 1 {
			t.Fatalf("one has it: %+v, %v", a, ok)
		}
	}
	if a, ok := s.tryJoin(0, start, at(8).Addr()); !ok || len(a.Peers) != 1 {
		t.Errorf("another one asks: %+v, %v", a, ok)
	}
}

// A long queue answers each boot once. Boots whose hold ended are told to repeat the request; the others stay in order.
func TestLongJoinQueue(t *testing.T) {
	tr := NewTracker(TrackerOptions{Uplink: 1 << 20, Random: chance()})
	tr.uplink.charge(0, 1<<30)
	tr.firstAfter = time.Hour
	const boots = 1000
	stand := map[Ticket]time.Duration{}
	for i := range boots {
		patience := usualJoinTimeout
		if i%2 == 0 {
			patience = 0
		}
		x := tr.QueueJoin(0, at(byte(i)).Addr(), JoinRequest{Swarm: "p", Size: 1000}, patience)
		stand[x] = joinHold(patience, tr.AnnounceDelay("p", tr.queuedJoins))
	}
	gone := Ticket(1)
	tr.CancelJoin(gone)
	delete(stand, gone)
	looks := 0
	for now := time.Duration(0); len(stand) > 0; {
		replies, wake := tr.StepJoins(now)
		for _, r := range replies {
			if held, ok := stand[r.Ticket]; !ok || !r.Again || now < held {
				t.Fatalf(
					"at %s boot %d is answered %+v; it stands there: %v, until %s",
					now,
					r.Ticket,
					r.JoinReply,
					ok,
					held,
				)
			}
			delete(stand, r.Ticket)
		}
		if len(stand) > 0 && wake <= now {
			t.Fatalf("at %s it is to be called at %s", now, wake)
		}
		now = wake
		looks++
	}
	if tr.queuedJoins != 0 || len(tr.joinQueues) != 0 || looks > int(usualJoinTimeout/time.Millisecond) {
		t.Errorf("%d stand there, in %d lines; it was called %d times", tr.queuedJoins, len(tr.joinQueues), looks)
	}
}
