package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
)

// run makes one run: all nodes are switched on at once, and stay up until the last one has booted. If nodes failed, it
// returns the run and an error.
func (s *Storm) run(ctx context.Context, m *testbed.Material, j job) (r stormRun, err error) {
	s.job = j
	s.Programs = s.programs()
	if err := s.Star.Limit(j.Server, j.Node); err != nil {
		return r, err
	}
	r = s.newRun(m, j)
	nodes, err := s.nodesOf(m, j)
	if err != nil {
		return r, err
	}
	stop, err := s.serveSystem(ctx, m)
	if err != nil {
		return r, err
	}
	defer stop()
	if err := s.prepare(ctx, m, j, nodes, &r); err != nil {
		return r, err
	}
	longest := patience(r)
	if s.k {
		longest += patienceK(m, j)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, &lateRun{longest})
	defer cancel()
	stopDisks, err := s.cacheDisks(ctx, m, j, nodes)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopDisks()) }()
	if f := findFault(j.Fault); f.repair != nil {
		defer func() { err = errors.Join(err, f.repair(s, nodes)) }()
	}
	bad, err := s.badPeers(ctx, m, j)
	if err != nil {
		return r, err
	}
	defer bad.stop()
	if err := s.alter(ctx, m, j); err != nil {
		return r, err
	}
	if s.ready != nil {
		s.ready()
	}
	before, err := s.look()
	if err != nil {
		return r, err
	}
	r.Began = time.Now().UTC()
	failed := s.bootNodes(ctx, m, j, nodes, &r)
	if failed != nil && !r.failed() {
		return r, failed
	}
	after, err := s.look()
	if err == nil {
		r.count(before, after)
	}
	answers, unnoted := bad.ended()
	r.spoiled(nodes, answers)
	err = errors.Join(err, unnoted)
	if err == nil && s.tell {
		err = s.timelines(ctx, nodes, &r)
	}
	return r, errors.Join(failed, err)
}

// prepare declares the nodes on the server, if the server has to know them.
func (s *Storm) prepare(ctx context.Context, m *testbed.Material, j job, nodes []*node, r *stormRun) (err error) {
	if s.tell || s.k {
		if err := s.acquaint(ctx, m, nodes); err != nil {
			return err
		}
	}
	if s.k {
		if err := s.tellLink(ctx, nodes[0], j); err != nil {
			return err
		}
		if r.K, err = s.loadAll(ctx, m.Pieces); err != nil {
			return err
		}
	}
	if s.tell && j.Fault != "" {
		return s.loadAhead(ctx, nodes, j)
	}
	return nil
}

// newRun returns a run that has only its parameters.
func (s *Storm) newRun(m *testbed.Material, j job) stormRun {
	return stormRun{
		Release:    cmp.Or(j.Release, s.release),
		Overhead:   testkit.FrameOverhead,
		Fault:      j.Fault,
		Pair:       j.Pair,
		Change:     j.Change,
		System:     j.System,
		Nodes:      j.Nodes,
		NodeRate:   int64(j.Node),
		ServerRate: int64(j.Server),
		Again:      j.Again,
		Unit:       bench.Unit(m.BootSet, j.Node).Seconds(),
		Think:      s.think,
		BootSet:    m.BootSet,
		Read:       m.Read,
		RootSize:   m.Manifest.Root.Size,
		Each:       make([]nodeRun, j.Nodes),
		Segment:    s.system(j.System).Segment,
	}
}

// count sets the differences between two looks.
func (r *stormRun) count(before, after look) {
	r.ServerSent = after.sent - before.sent
	r.Load = before.ticks.Load(after.ticks, after.own-before.own)
	r.ServerCPU = max(0, after.server-before.server) // a restarted server begins at 0
	r.ServerMemory = after.memory
	r.Discarded = r.Load.TooBusy() != ""
}

// patience returns the time limit of a run: several times what the slowest system needs, which sends each node a whole
// compressed image, plus two minutes.
func patience(r stormRun) time.Duration {
	most := max(r.Read, r.RootSize/3)
	slowest := float64(r.Nodes)*float64(most)*8/(bench.Eta*float64(r.ServerRate)) + r.Think*r.Unit
	return 2*time.Minute + time.Duration(3*slowest*float64(time.Second))
}

// nodesOf returns the nodes of a run, each with an empty directory.
func (s *Storm) nodesOf(m *testbed.Material, j job) ([]*node, error) {
	dir := filepath.Join(s.Dir, "nodes")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	var out []*node
	for i := range j.Nodes {
		n := &node{
			Node: testbed.Node{
				Net:      s.Star.Nodes[i],
				Dir:      filepath.Join(dir, strconv.Itoa(i)),
				Bin:      s.programs(),
				Material: m,
				Server:   testbed.URL(),
			},
			index: i,
			link:  s.Star,
		}
		if err := os.MkdirAll(n.Dir, 0o755); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// look reads the counters that a run changes.
func (s *Storm) look() (l look, err error) {
	if l.sent, err = s.Star.ServerSent(); err != nil {
		return l, err
	}
	session := s.Site.PID()
	if s.served.PID != 0 {
		session = s.served.PID
	}
	if l.server, l.memory, err = bench.SessionCost(session); err != nil {
		return l, err
	}
	if l.own, err = s.account.Used(); err != nil {
		return l, err
	}
	l.ticks, err = bench.ReadTicks()
	return l, err
}

type look struct {
	sent   int64
	server float64 // processor time of the serving processes
	memory int64   // their largest resident memory
	own    float64 // processor time of the whole lab
	ticks  bench.Ticks
}

// bootNodes boots all nodes and stores their measurements in r. The first failure ends the run, except in a run with a
// fault, which also shows how other nodes cope.
func (s *Storm) bootNodes(ctx context.Context, m *testbed.Material, j job, nodes []*node, r *stormRun) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bursts := m.Boot.Scaled(time.Duration(r.Think * r.Unit * float64(time.Second)))
	var booting, ending sync.WaitGroup
	booting.Add(len(nodes))
	begin := time.Now()
	errs := make([]error, len(nodes))
	struck := s.strikeAfter(ctx, r, nodes)
	for i, n := range nodes {
		ending.Go(func() {
			var once sync.Once
			up := false
			booted := func() { once.Do(booting.Done) }
			defer booted()
			err := n.boot(ctx, s.system(j.System), bursts, begin, &r.Each[i], func() {
				up = true
				booted()
				booting.Wait()
			})
			switch {
			case n.killed.Load():
				r.Each[i] = nodeRun{Killed: true}
			case up && ctx.Err() != nil: // it had booted before the run was cancelled
			case err != nil:
				errs[i] = fmt.Errorf("%s: %w", shortName(i), err)
				if r.Fault == "" {
					cancel(errs[i])
				}
			}
		})
	}
	ending.Wait()
	r.meet(nodes)
	return r.ended(ctx, errs, struck)
}

// ended returns the error of a run whose nodes are done. A run with a fault that ended, even by its time limit, gets
// the error of each node.
func (r *stormRun) ended(ctx context.Context, errs []error, struck func() error) error {
	if err := context.Cause(ctx); err != nil && (r.Fault == "" || !errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		return err
	}
	failed := r.fail(errs)
	if err := struck(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("%s: %w", r.Fault, err))
	}
	return errors.Join(failed, r.finish())
}

// boot boots one node. It calls stay after the boot, and closes the root when stay returns.
func (n *node) boot(
	ctx context.Context,
	sys bench.System,
	bursts []testbed.Burst,
	begin time.Time,
	out *nodeRun,
	stay func(),
) (err error) {
	if n.before, err = n.link.NodeReceived(n.index); err != nil {
		return err
	}
	if n.loads {
		if out.K, err = n.loadK(ctx, begin); err != nil {
			return err
		}
	}
	tells := n.ahead
	if n.tells && tells == nil {
		if tells, err = n.load(ctx); err != nil {
			return err
		}
	}
	root, err := n.attach(ctx, sys)
	if err != nil {
		return err
	}
	closed := sync.OnceFunc(root.Close)
	defer closed()
	stop := context.AfterFunc(ctx, closed) // a waiting read ends when its root is closed
	defer stop()
	out.Attached = time.Since(begin).Seconds()
	if n.serving != nil {
		defer n.Kernel.File.Close()
		if err := n.serving.serves(ctx); err != nil {
			return err
		}
	}
	if tells != nil {
		if err := tells.attached(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tells.end(ctx)) }() // while its root still exists
	}
	waits, err := n.Material.Replay(ctx, root, bursts, bench.Pause)
	if err != nil {
		return err
	}
	up := time.Now()
	out.Booted = up.Sub(begin).Seconds()
	out.Stalled = testbed.Stall(waits, bursts).Seconds()
	slices.Sort(waits)
	out.Wait99 = waits[len(waits)*99/100].Seconds()
	if out.Link, err = n.received(); err != nil {
		return err
	}
	if out.Taken, err = root.Usage(ctx); err != nil {
		return err
	}
	if p, ok := root.(*testbed.BlockRoot); ok && tells != nil {
		if err := tells.booted(ctx, up, p); err != nil {
			return err
		}
	}
	stay()
	if p, ok := root.(*testbed.BlockRoot); ok {
		at, err := p.Complete(ctx, n.Material.Beyond)
		if err != nil || at.IsZero() {
			return err
		}
		out.Complete = at.Sub(begin).Seconds()
	}
	return nil
}
