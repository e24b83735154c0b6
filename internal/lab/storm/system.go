package storm

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// systems are all that can be measured.
func (s *Storm) systems() []bench.System { return append(own(), s.rivals...) }

// own are the steps of Pando: what each of them buys, added to those before.
func own() []bench.System {
	return []bench.System{
		{
			Name:    "chunks",
			What:    "Pando: chunks, by unicast",
			Cost:    1.0,
			Segment: unstamped,
		},
		{
			Name:    "pack",
			What:    "Pando: and the boot pack, when a read asks for it",
			Cost:    0.9,
			Segment: unstamped,
		},
		{
			Name:    "prefetch",
			What:    "Pando: and ahead of the reads",
			Cost:    1.0,
			Segment: unstamped,
		},
		{
			Name:    "peers",
			What:    "Pando: and from each other",
			Cost:    1.8,
			Shared:  true,
			Segment: unstamped,
		},
	}
}

// steps are how far nodes go with each of them.
func steps() map[string]testbed.Step {
	return map[string]testbed.Step{
		"chunks":   {},
		"pack":     {Pack: true, Idle: true},
		"prefetch": {Pack: true},
		"peers":    {Pack: true, Peers: true},
	}
}

// serveSystem starts what a run needs. For Pando's own systems the server is started anew: its tracker forgets the run
// before, and it is told what its link is, since it admits nodes by that.
func (s *Storm) serveSystem(ctx context.Context, m *testbed.Material) (stop func(), err error) {
	s.served = bench.Served{}
	if _, ours := steps()[s.job.System]; ours {
		if err := s.Site.Close(); err != nil {
			return nil, err
		}
		if err := s.Serve(ctx, "off", s.linkFlags()...); err != nil {
			return nil, err
		}
		return func() {}, s.Settle(ctx)
	}
	serve := s.system(s.job.System).Serve
	if serve == nil {
		return func() {}, nil
	}
	if s.served, err = serve(ctx, s.Host(), m.Image); err != nil {
		return nil, err
	}
	return func() {
		s.served.End()
		s.served = bench.Served{}
	}, nil
}

// attach makes the root of a system that can be read, on the node. What it took is in the root.
func (n *node) attach(ctx context.Context, sys bench.System) (bench.Root, error) {
	if step, ours := steps()[sys.Name]; ours {
		root, err := n.Attach(ctx, step)
		if err != nil {
			return nil, err
		}
		n.daemon.Store(int64(root.PID()))
		return root, nil
	}
	return sys.Attach(ctx, bench.Client{Net: n.Net, Dir: n.Dir, Bin: n.Bin, Image: n.Material.Image})
}

// filesBeside makes the squashfs, where a rival wants it: it takes all processors for a minute or two, and an
// emulated machine that is recorded leaves one of them.
func (s *Storm) filesBeside(ctx context.Context, m *testbed.Material) error {
	wants := func(name string) bool { return slices.Contains(s.system(name).Programs, bench.MakesSquashfs) }
	if !slices.ContainsFunc(s.wanted, wants) {
		return nil
	}
	_, err := m.Squashfs(ctx)
	return err
}

func names(of []bench.System) (out []string) {
	for _, s := range of {
		out = append(out, s.Name)
	}
	return out
}

func (s *Storm) system(name string) bench.System {
	for _, x := range s.systems() {
		if x.Name == name {
			return x
		}
	}
	panic("no system " + name) // flags were checked
}

// node is one machine of a storm.
type node struct {
	testbed.Node
	index  int
	link   *testkit.Star
	killed atomic.Bool  // by a fault
	daemon atomic.Int64 // process id of its block daemon; 0: none
	before int64        // bytes that it had received before it was switched on
	tells  bool         // the server knows it, and hears how far it is
	rate   testkit.Rate // that it tells of its link; 0: nothing
	loads  bool         // it loads kernel and initramfs before its root
	ahead  *telling     // it has its kernel and initramfs before the storm begins; nil: not
	bootID fleet.BootID // as the server names it; "": it does not
}

// shortName names a node in messages.
func shortName(i int) string { return "node " + strconv.Itoa(i) }

// received is what came over the node's link since it was switched on.
func (n *node) received() (int64, error) {
	now, err := n.link.NodeReceived(n.index)
	return now - n.before, err
}

// bestName is the system that has all of Pando.
func bestName() string {
	all := own()
	return all[len(all)-1].Name
}
