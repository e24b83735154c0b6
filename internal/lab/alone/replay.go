package alone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
)

// replayRate is the rate of the node's link and of the server's, in bits per second: the slowest of measurements of one
// machine.
const replayRate = 1_000_000_000

// replayWays maps the ways that can be replayed on this machine's processors, without a driver of the node's kernel, to
// the names of their systems. Pando's is served by a block daemon, not by such a system.
var replayWays = map[string]string{bench.PandoWay: "", "nbd-erofs": "nbd", "disk": diskSystem}

// diskSystem is the name of the system whose root is on this machine's disk.
const diskSystem = "disk"

// canReplay reports whether a way can be measured without an emulated machine.
func canReplay(way string) bool {
	_, ok := replayWays[way]
	return ok
}

// replayedSystem returns the system of a way; false for Pando's and for ways that need an emulated machine.
func (a *Alone) replayedSystem(way string) (bench.System, bool) {
	i := slices.IndexFunc(a.systems, func(s bench.System) bool { return s.Name == replayWays[way] })
	if i < 0 {
		return bench.System{}, false
	}
	return a.systems[i], true
}

// diskRoot reads from the disk, not from this kernel's page cache (O_DIRECT, open(2)), because replayed reads are those
// that missed the node's page cache. Reads are whole blocks of 4 KiB, and Go's heap aligns buffers of such a size to
// them.
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

func (d openDisk) Close() { _ = d.File.Close() } // the file was only read

// checkReplay completes the flags of --replay, and returns an error for wrong ones.
func (a *Alone) checkReplay() error {
	if !a.replay {
		return nil
	}
	if a.wall {
		return errors.New("--replay starts no machine, so it goes without --wall")
	}
	if !a.Given["ways"] {
		a.ways = slices.DeleteFunc(a.wayNames(), func(name string) bool { return !canReplay(name) })
	}
	for _, name := range a.ways {
		if !canReplay(name) {
			return fmt.Errorf("--replay: there is no %s without a kernel of the node's own", name)
		}
		if s, ok := a.replayedSystem(name); ok {
			if err := s.Check(a.Bin); err != nil {
				return err
			}
		}
	}
	return nil
}

// diskWork returns how long a boot from a disk takes by the clock of instructions, in seconds: its processor time
// without waits.
func (a *Alone) diskWork(m *testbed.Material) (float64, error) {
	counted := &result{Clock: byInstructions}
	r, err := bench.ReadJSON[result](filepath.Join(a.Dir, counted.file()))
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

// readyReplay prepares replays: it determines the work between reads, and reads everything that boots read into memory.
func (a *Alone) readyReplay(ctx context.Context, m *testbed.Material) (err error) {
	if a.work, err = a.diskWork(m); err != nil {
		return err
	}
	a.Say("A boot works for %.2f s between its reads, on links of %s", a.work, testkit.Rate(replayRate))
	if err := errors.Join(m.Remember(ctx), a.Star.Acquaint()); err != nil {
		return err
	}
	a.account, err = bench.OpenAccount("/sys/fs/cgroup")
	return err
}

// replayed replays one boot of a way, and returns its duration since power-on in seconds. It returns an error if other
// programs kept this machine busy.
func (a *Alone) replayed(ctx context.Context, m *testbed.Material, way string, res *result) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, aloneTimeout, fmt.Errorf("not booted after %s", aloneTimeout))
	defer cancel()
	n, err := a.replayNode(m)
	if err != nil {
		return 0, err
	}
	attach, stop, err := a.serveReplay(ctx, way, n)
	if err != nil {
		return 0, err
	}
	defer stop()
	before, own, err := a.look()
	if err != nil {
		return 0, err
	}
	b, err := replayBoot(ctx, attach, m, time.Duration(a.work*float64(time.Second)))
	if err != nil {
		return 0, err
	}
	after, ownNow, err := a.look()
	if err != nil {
		return 0, err
	}
	if busy := before.Load(after, ownNow-own).TooBusy(); busy != "" {
		return 0, errors.New(busy)
	}
	res.Waited[way] = append(res.Waited[way], b.waited)
	a.Say(
		"   its root could be read after %.2f s, it waited for reads for %.2f s, its programs took %.2f s of "+
			"processor time",
		b.attached,
		b.stalled,
		b.cpu,
	)
	return b.booted, nil
}

// replayNode returns the node, with an empty directory.
func (a *Alone) replayNode(m *testbed.Material) (testbed.Node, error) {
	dir := filepath.Join(a.Dir, "nodes", "0")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return testbed.Node{}, err
	}
	return testbed.Node{Net: a.Star.Nodes[0], Dir: dir, Bin: a.Bin, Server: testbed.URL(), Material: m},
		a.Star.Limit(replayRate, replayRate)
}

// attachFunc attaches the root of a node.
type attachFunc func(context.Context) (bench.Root, error)

// serveReplay starts the servers of a way. Pando's server is restarted with the rates of its links, as in storms.
func (a *Alone) serveReplay(ctx context.Context, way string, n testbed.Node) (attachFunc, func(), error) {
	s, other := a.replayedSystem(way)
	if !other {
		if err := a.Site.Close(); err != nil {
			return nil, nil, err
		}
		if err := a.Serve(ctx, "off", "--uplink", testkit.Rate(replayRate).String()); err != nil {
			return nil, nil, err
		}
		attach := func(ctx context.Context) (bench.Root, error) {
			return n.Attach(ctx, testbed.Step{Pack: true, Peers: true})
		}
		return attach, func() {}, a.Settle(ctx)
	}
	attach := func(ctx context.Context) (bench.Root, error) {
		return s.Attach(ctx, bench.Client{Net: n.Net, Dir: n.Dir, Bin: n.Bin, Image: n.Material.Image})
	}
	if s.Serve == nil {
		return attach, func() {}, nil
	}
	served, err := s.Serve(ctx, a.Host(), n.Material.Image)
	return attach, served.End, err
}

// look returns the processor time of the machine, and that of the lab in seconds.
func (a *Alone) look() (bench.Ticks, float64, error) {
	own, err := a.account.Used()
	if err != nil {
		return bench.Ticks{}, 0, err
	}
	ticks, err := bench.ReadTicks()
	return ticks, own, err
}

// replayedBoot has the times of a replayed boot, in seconds.
type replayedBoot struct {
	attached, stalled, booted, cpu float64
	waited                         []float64
}

// replayBoot attaches a root and makes the reads of a boot. The boot works for the time work between its reads.
func replayBoot(ctx context.Context, attach attachFunc, m *testbed.Material, work time.Duration) (b replayedBoot,
	err error) {
	begin := time.Now()
	root, err := attach(ctx)
	if err != nil {
		return b, err
	}
	closed := sync.OnceFunc(root.Close)
	defer closed()
	defer context.AfterFunc(ctx, closed)() // a waiting read ends when its root is closed
	b.attached = time.Since(begin).Seconds()
	w, release, err := newWorker()
	if err != nil {
		return b, err
	}
	defer release()
	bursts := m.Boot.Scaled(work)
	waits, err := m.Replay(ctx, root, bursts, w.think)
	if err != nil {
		return b, err
	}
	b.booted = time.Since(begin).Seconds()
	b.stalled, b.waited = testbed.Stall(waits, bursts).Seconds(), waited(waits, bursts)
	used, err := root.Usage(ctx)
	b.cpu = used.CPU
	return b, err
}
