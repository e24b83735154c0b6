package boot

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How busy a block daemon is, as the part of one processor, when it takes a second one, and when it gives that back.
const (
	busyAbove = 0.7
	idleBelow = 0.35
)

// threadsEvery is how often it is looked at, when reads come.
const threadsEvery = time.Second

// threads has the block daemon use one processor at a time, and two while it has that much to do. A Go program that
// may use two wakes another thread for most of what comes, to see whether there is more: of a boot at 1.8 Mb/s, in
// which a frame comes or a read now and then, that took a quarter of the processor time: see
// docs/adr/0040-one-processor-at-a-time.md.
type threads struct {
	most int // processors that it may use

	mu    sync.Mutex
	now   int
	since time.Time
	spent time.Duration // processor time until then
}

// newThreads begins with one.
func newThreads() *threads {
	t := &threads{most: min(2, runtime.NumCPU()), now: 1, since: time.Now(), spent: ownTime()}
	runtime.GOMAXPROCS(t.now)
	return t
}

// look takes a second processor, or gives it back. It is called when there is something to do.
func (t *threads) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	passed := time.Since(t.since)
	if t.most < 2 || passed < threadsEvery {
		return
	}
	spent := ownTime()
	if n := processors(t.now, float64(spent-t.spent)/float64(passed)); n != t.now {
		t.now = n
		runtime.GOMAXPROCS(n)
	}
	t.since, t.spent = t.since.Add(passed), spent
}

// processors is how many are right for who uses now of them and was as busy as that.
func processors(now int, busy float64) int {
	switch {
	case busy > busyAbove:
		return 2
	case busy < idleBelow:
		return 1
	}
	return now
}

// ownTime is what processor time this process has taken so far.
func ownTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
