package storm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
	"pando/internal/testkit"
)

// replayRate is the node's link, and the server's: the slowest that one machine alone is measured on.
const replayRate = 1_000_000_000

// replayWays are the ways that can be measured on this machine's own processors, without a kernel's driver of the
// node's, and the storm's systems that they are.
var replayWays = map[string]string{bench.PandoWay: "peers", "nbd-erofs": "nbd", "disk": diskSystem}

// diskSystem is the root on this machine's disk.
const diskSystem = "disk"

// diskRoot has reads go to the disk, past this kernel's memory (O_DIRECT, open(2)): they are what the node's kernel
// did not have in its own. They are of whole blocks of 4 KiB, and so are the places that Go's heap has for them.
func diskRoot() bench.System {
	return bench.System{
		Name: diskSystem,
		What: "this machine's disk",
		Attach: func(ctx context.Context, n bench.Client) (bench.Root, error) {
			raw, err := n.Image.RawFile(ctx)
			if err != nil {
				return nil, err
			}
			f, err := os.OpenFile(raw, os.O_RDONLY|unix.O_DIRECT, 0)
			return openDisk{f}, err
		},
	}
}

type openDisk struct{ *os.File }

func (openDisk) Usage(context.Context) (bench.Usage, error) { return bench.Usage{}, nil }

func (d openDisk) Close() { _ = d.File.Close() } // it was only read

// checkReplay completes the flags of --replay and says what is wrong with them.
func (a *Alone) checkReplay() error {
	if !a.replay {
		return nil
	}
	if a.wall {
		return errors.New("--replay starts no machine, so it goes without --wall")
	}
	if !a.given["ways"] {
		a.ways = slices.DeleteFunc(a.wayNames(), func(name string) bool { return replayWays[name] == "" })
	}
	for _, name := range a.ways {
		if replayWays[name] == "" {
			return fmt.Errorf("--replay: there is no %s without a kernel of the node's own", name)
		}
		if err := a.system(replayWays[name]).Check(a.Bin); err != nil {
			return err
		}
	}
	return nil
}

// diskWork is how long a boot from a disk took by the clock of instructions, in seconds: what it has to do that is
// not to wait.
func (a *Alone) diskWork(m *material) (float64, error) {
	counted := &aloneResult{Clock: byInstructions}
	r, err := bench.ReadJSON[aloneResult](filepath.Join(a.Dir, counted.file()))
	switch {
	case err == nil && (r == nil || len(r.Seconds["disk"]) == 0):
		return 0, fmt.Errorf(
			"--replay: how long a boot from a disk works is not in %s: measure that first, with --ways disk",
			filepath.Join(a.Dir, counted.file()),
		)
	case err != nil:
		return 0, err
	case r.Version != string(m.Version):
		return 0, fmt.Errorf(
			"--replay: the boots in %s are of another version, %.19s: measure them again, with --ways disk",
			filepath.Join(a.Dir, counted.file()),
			r.Version,
		)
	}
	return bench.MedianOf(r.Seconds["disk"]), nil
}

// readyReplay has boots work between their reads, and everything that they read in memory.
func (a *Alone) readyReplay(ctx context.Context, m *material) (err error) {
	if a.work, err = a.diskWork(m); err != nil {
		return err
	}
	a.works, a.think = true, a.work/unit(m.bootSet, replayRate).Seconds()
	a.Say("A boot works for %.2f s between its reads, on links of %s", a.work, testkit.Rate(replayRate))
	if err := errors.Join(m.Remember(ctx), a.star.Acquaint()); err != nil {
		return err
	}
	a.account, err = bench.OpenAccount("/sys/fs/cgroup")
	return err
}

// replayed makes one boot of a way, and returns how long it took since the node was switched on. It counts while
// the boot and what brings its root are all that this machine does.
func (a *Alone) replayed(ctx context.Context, m *material, way string, res *aloneResult) (float64, error) {
	r, err := a.run(ctx, m, job{System: replayWays[way], Nodes: 1, Node: replayRate, Server: replayRate})
	switch {
	case err != nil:
	case r.Discarded:
		err = errors.New(r.Load.TooBusy())
	default:
		n := r.Each[0]
		res.Waited[way] = append(res.Waited[way], n.StalledIn)
		a.Say(
			"   its root could be read after %.2f s, it waited for reads for %.2f s, its programs took %.2f s of "+
				"processor time",
			n.Attached,
			n.Stalled,
			n.Taken.CPU,
		)
	}
	return r.Last, err
}

// worker is a boot that works on one processor.
type worker struct {
	due  time.Duration // processor time that it should have had by now
	data [4096]byte
}

// think works for so long: by the processor time of its own thread, so that a boot whose processor is taken away
// has to wait for it. It is to be called on a goroutine with a thread of its own.
func (w *worker) think(ctx context.Context, d time.Duration) error {
	w.due += d
	for {
		had, err := threadTime()
		if err != nil || had >= w.due || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		sum := sha256.Sum256(w.data[:])
		copy(w.data[:], sum[:])
	}
}

// newWorker begins to count. Its thread is its caller's until release is called.
func newWorker() (w *worker, release func(), err error) {
	runtime.LockOSThread()
	had, err := threadTime()
	return &worker{due: had}, runtime.UnlockOSThread, err
}

// threadTime is the processor time of this thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("processor time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
