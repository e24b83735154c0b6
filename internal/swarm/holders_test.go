package swarm

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pando/internal/chunk"
)

func TestDemandObjectsAreNamedOnceTheUplinkIsSpent(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Short()
	for n := byte(1); n <= 3; n++ {
		join(t, tr, 0, n)
	}
	ask := func(now time.Duration, id chunk.ShortID, n byte) []netip.AddrPort {
		names, wait := tr.demandHolders(now, id, at(n), 1000)
		if (len(names) > 0) != (wait > 0) {
			t.Errorf("named %v, to be waited for %s", names, wait)
		}
		return names
	}
	if got := ask(0, id, 1); got != nil {
		t.Fatalf("the first one is sent to %v", got)
	}
	if got := ask(time.Second, id, 2); got != nil {
		t.Fatalf("with a free uplink sent to %v", got)
	}
	tr.uplink.charge(time.Second, 10_000)
	if got := ask(time.Second, id, 3); !slices.Equal(got, []netip.AddrPort{at(1), at(2)}) {
		t.Errorf("named %v", got)
	}
	if got := ask(time.Second, chunk.Sum(nil).Short(), 3); got != nil {
		t.Errorf("nobody has it, and it is sent to %v", got)
	}
	tr.uplink.charge(time.Hour, 10_000)
	join(t, tr, time.Hour, 1)
	if got := ask(time.Hour, id, 1); got != nil {
		t.Errorf("those may have let go of it: %v", got)
	}
}

// While kernel+initrd transfers fill the uplink, holders are named even if there is room for pieces. An object without
// holders is sent.
func TestDemandObjectsWhileKIsSent(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Short()
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	tr.Busy(true)
	if got, _ := tr.demandHolders(0, id, at(1), 1000); got != nil {
		t.Errorf("nobody has it, and it is sent to %v", got)
	}
	if got, _ := tr.demandHolders(time.Second, id, at(2), 1000); !slices.Equal(got, []netip.AddrPort{at(1)}) {
		t.Errorf("named %v", got)
	}
	if peers, wait := tr.bootstrap(time.Second, JoinRequest{Swarm: "p", Size: 1000}); wait || len(peers) == 0 {
		t.Errorf("of what boots start with: %v, %v", peers, wait)
	}
}

// Nodes that want the same object at the same moment get it from each other. Each node sends it a few times, to nodes
// that asked later, so no node waits for itself. The chain from the server stays short.
func TestDemandObjectsGoRoundAsATree(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Short()
	for n := byte(1); n <= 200; n++ {
		join(t, tr, 0, n)
	}
	tr.uplink.charge(0, 1<<20)
	sends, depth, deepest := map[netip.AddrPort]int{}, map[netip.AddrPort]int{}, 0
	for n := byte(1); n <= 200; n++ {
		names, _ := tr.demandHolders(0, id, at(n), 1000)
		if (len(names) == 0) != (n == 1) || len(names) > maxNames {
			t.Fatalf("node %d is named %v", n, names)
		}
		for i, from := range names {
			if from.Addr().As4()[3] >= n {
				t.Errorf("node %d waits for %v, which came later", n, from)
			}
			if i == 0 {
				sends[from]++
				depth[at(n)] = depth[from] + 1
				deepest = max(deepest, depth[at(n)])
			}
		}
	}
	for from, times := range sends {
		if times > maxNamed {
			t.Errorf("%v sends it %d times", from, times)
		}
	}
	if deepest > 8 {
		t.Errorf("it goes through %d hands", deepest)
	}
}

// The memory is bounded, whatever is requested.
func TestDemandObjectsHaveBounds(t *testing.T) {
	var l demandObjects
	for i := range maxDemandObjects + 10 {
		l.add(0, chunk.Sum([]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Short(), at(1))
	}
	id := chunk.Sum([]byte("firefox")).Short()
	for n := range 100 {
		l.add(0, id, at(byte(n)))
	}
	l.add(0, id, netip.AddrPort{})
	if len(l.objects) != maxDemandObjects || len(l.order) != maxDemandObjects || len(l.objects[id]) != maxHoldersKept {
		t.Errorf("%d objects, %d in order, %d fetchers of one", len(l.objects), len(l.order), len(l.objects[id]))
	}
	l.add(holderMemory+1, id, at(200))
	if got := l.objects[id]; len(got) != 1 || got[0].node != at(200) {
		t.Errorf("after a while: %v", got)
	}
}
