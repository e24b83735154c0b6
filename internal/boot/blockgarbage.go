package boot

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// When the block daemon collects garbage, in bytes of its heap beside what is kept of boot pack and cache. The
// bound is not to be come near: measured over 1,500 reads of 62 MB, with 4 MiB of raw chunks, an aim of 16 MB took
// 12 MB beside the program and 0.55 s of one processor, 14 MB 10 and 0.75 s, 12 MB 8 and 1.6 s, nearly all of it
// garbage collection. So it is done when the heap has grown to what takes no more memory than the daemon is meant
// to, or, where more than that is in use, by a fifth. The boot of a desktop that read 384 MB with a boot pack of
// 124 MB, a run each: with a fifth 24.8 MB beside the pack and 3.8 s, with a half 28.2 MB and 2.8 s; among ten
// nodes with a fifth 26.8 MB and 5.2 s, where it was 26.6 MB and 7.8 s with a bound alone. With a bound of 16 MiB
// and four decoders a desktop that has no peers came near it, and took 7.1 s by its pack and 13.1 s by chunks; with
// 18 MiB and two decoders it takes 2.3 and 4.5 s, and 22.2 MB where it was 20. A server's boot, which has little in
// use, takes as long with 9 MiB in any case as with 10, and 1.2 MB less. Since there are 3 MiB of raw chunks a
// desktop among ten has as little in use; among forty it is 1 MB more, so it is not a fifth any more but 15 %: of
// ten one takes 4.1 s with it, and 4.4 with a fifth (a run, and two). Of forty the most that one of them took was
// 23.9 MB in two runs and 24.4 in a third, so it is 10 %.
const (
	blockHeap    = 18 << 20 // the bound
	blockEasy    = 9 << 20  // the heap may grow to this in any case,
	blockGarbage = 10       // and by so many percent of what is in use
)

// runtimeLeast is the heap that Go does not collect with a percentage of 100; it grows with that.
const runtimeLeast = 4 << 20

// garbage says after each collection when the next one is due. Go knows a percentage of all that is in use only:
// what is kept would make garbage by the fifth, and while little is in use garbage would be collected again and
// again.
type garbage struct {
	mu     sync.Mutex   // of the bound
	kept   atomic.Int64 // bytes that may be kept in the heap
	more   atomic.Int64 // and raw ones, as long as there are no peers
	beside atomic.Int64 // and what else the bound has room for
}

// collected is an object that is collected with the garbage, to tell that it was.
type collected struct{ _ [32]byte }

// watch begins.
func (g *garbage) watch() {
	g.adjust()
	runtime.SetFinalizer(new(collected), func(*collected) { g.watch() })
}

// keep says how many bytes more may be kept in the heap.
func (g *garbage) keep(bytes int64) {
	g.kept.Add(bytes)
	g.bound()
	g.adjust()
}

// lone says how many raw bytes more there may be, without peers.
func (g *garbage) lone(bytes int64) {
	g.more.Store(bytes)
	g.bound()
	g.adjust()
}

// share says how many bytes more there may be for peers.
func (g *garbage) share(bytes int64) {
	g.beside.Add(bytes)
	g.bound()
}

// bound sets the bound. The cache's disk and peers may come at the same time.
func (g *garbage) bound() {
	g.mu.Lock()
	defer g.mu.Unlock()
	debug.SetMemoryLimit(blockHeap + g.kept.Load() + g.more.Load() + g.beside.Load())
}

func (g *garbage) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(garbagePercent(int64(live[0].Value.Uint64()), g.kept.Load()+g.more.Load()))
}

// garbagePercent is how much garbage may be made, in percent of what was in use when it was last collected, of
// which so much may be kept.
func garbagePercent(live, kept int64) int {
	room := max(blockEasy+kept-live, (live-kept)*blockGarbage/100)
	return int(min(max(1, 100*room/max(1, live)), 100*blockEasy/runtimeLeast))
}
