package boot

import (
	"fmt"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// blockGarbage is by how many percent the block daemon's heap grows before garbage is collected.
const blockGarbage = 100

// blockHeap bounds the block daemon's heap, in bytes, beside what memoryLimit adds. Near it the collector takes most of
// a processor, so a boot is to stay well below.
const blockHeap = 18 << 20

// memoryLimit bounds the heap of a daemon whose boot pack has size bytes, on a machine with so much memory.
func (c BlockConfig) memoryLimit(size, memory int64) int64 {
	limit := blockHeap + c.heap()
	// A pack that is kept whole lies beside the heap.
	if keep := keepOf(size, memory, c.Keep); keep < size {
		limit += keep
	}
	if c.Swarm != nil {
		limit += int64(c.loose()) + blockPeers
	}
	return limit
}

// timerSlack is by how many nanoseconds a thread may be woken late (PR_SET_TIMERSLACK, prctl(2)). The runtime has a
// thread of its own that looks after the others each 20 µs while any of them runs, and a daemon on a slow link is
// woken for a moment a hundred times in a second: with the 50 µs that are usual, a boot at 1.5 Mb/s took 0.98 s of
// a processor, with this 0.76.
const timerSlack = 1e6

// becomeRootDaemon makes this process one that the root file system can depend on: it gets no signal by
// accident, its memory is not paged out, and its allocations do not wait for the file system that waits for them.
// The garbage collector lets the heap grow by garbage percent, and keeps it below limit bytes where it can.
//
// Pages are locked as they are touched (MCL_ONFAULT). Locking all of a Go program's mappings at once takes
// 80 MB that it never uses; this way it is 10 to 20. So that a touch takes 4 KiB there are no huge pages: where they
// are made for every program, as in Debian, each would be 2 MiB that is cleared, and locked.
func becomeRootDaemon(limit int64, garbage int) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // also stops the runtime from looking at cgroup files
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(garbage)
	// PR_SET_IO_FLUSHER for every thread, and by inheritance for those to come. Not there before Linux 5.6.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_IO_FLUSHER, 1, 0)
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, timerSlack, 0)
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // a kernel without huge pages does not know it
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("lock memory: %w", err)
	}
	return nil
}

// residentMemory is how many bytes of this process are in memory. There is no /proc where it lives, so it
// is the peak, from getrusage.
func residentMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss * 1024
}
