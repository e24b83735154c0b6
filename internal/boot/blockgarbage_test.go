package boot

import (
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		live, kept int64
		goal       int64 // to which the heap grows before garbage is collected again
	}{
		{0, 0, 0},
		{1 * mib, 0, 3*mib + mib/4}, // the least that Go collects is more
		{5 * mib, 0, blockEasy},
		{10 * mib, 0, 11 * mib},
		{15 * mib, 0, 16*mib + mib/2},
		{5 * mib, 48 * mib, 16*mib + mib/4}, // it does not keep yet what it may
		{55 * mib, 48 * mib, 48*mib + blockEasy},
		{60 * mib, 48 * mib, 61*mib + 2*mib/10},
		{300 * mib, 300 * mib, 309 * mib},
	} {
		p := garbagePercent(x.live, x.kept)
		if goal := x.live + x.live*int64(p)/100; goal > x.goal || goal < x.goal-x.live/100-1 {
			t.Errorf(
				"%d MiB in use, %d of it kept: %d %%, to %.1f MiB, want %.1f",
				x.live>>20,
				x.kept>>20,
				p,
				float64(goal)/mib,
				float64(x.goal)/mib,
			)
		}
	}
}

// A node alone has more raw bytes, and as much more room for garbage, until the first object goes to a peer or
// comes from one.
func TestRoomOfANodeAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for name, meets := range map[string]func(swarmWatch){
		"gives": func(w swarmWatch) { w.Uploaded(netip.AddrPort{}, 1) },
		"takes": func(w swarmWatch) { w.Received(netip.MustParseAddrPort("10.0.0.2:8481"), 1) },
	} {
		ledger, file, err := newLedger()
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		d := &blockDaemon{ledger: ledger}
		d.garbage.keep(1 << 20)
		d.garbage.lone(blockLone)
		d.share()
		if got := debug.SetMemoryLimit(-1); got != blockHeap+blockLone+1<<20 {
			t.Errorf("alone: %d bytes", got)
		}
		w := swarmWatch{&sourceWatch{ledger: ledger, fed: map[string]int64{}}, d.company}
		for range 2 {
			meets(w)
			if got := debug.SetMemoryLimit(-1); got != blockHeap+1<<20 {
				t.Errorf("one that %s: %d bytes", name, got)
			}
		}
	}
}

// Each collection decides about the next one.
func TestGarbageIsWatched(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	g := &garbage{}
	g.keep(0)
	g.watch()
	for range 3 {
		const other = 77
		debug.SetGCPercent(other)
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			runtime.GC()
			if p := debug.SetGCPercent(other); p != other {
				break
			}
			if time.Since(begin) > 10*time.Second {
				t.Fatal("garbage was collected, and nothing was decided")
			}
		}
	}
}
