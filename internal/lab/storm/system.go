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

// systems returns all systems that can be measured.
func (s *Storm) systems() []bench.System { return append(own(), s.rivals...) }

// own returns the steps of Pando. Each step adds one feature, so that its effect is measured.
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

// steps maps the names of Pando's steps to the features that nodes use.
func steps() map[string]testbed.Step {
	return map[string]testbed.Step{
		"chunks":   {},
		"pack":     {Pack: true, Idle: true},
		"prefetch": {Pack: true},
		"peers":    {Pack: true, Peers: true},
	}
}

// serveSystem starts the servers of a run. Pando's server is restarted, so that its tracker has no peers of the last
// run. It is told the rate of its link, because admission depends on it.
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

// attach attaches the root of a system on the node. The root has the measurements.
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

// filesBeside makes the squashfs, if a rival needs it. This uses all processors for a minute or two, while recording an
// emulated machine leaves one idle.
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
	index   int
	link    *testkit.Star
	killed  atomic.Bool  // killed by a fault
	daemon  atomic.Int64 // process id of its block daemon; 0: it does not run
	before  int64        // bytes that it had received before power-on
	tells   bool         // the server knows it, and it reports its boot
	rate    testkit.Rate // rate that it reports for its link; 0: none
	loads   bool         // it loads kernel and initramfs before its root
	wrong   bool         // what it serves of kernel and initramfs has wrong bytes
	serving *telling     // set if it serves kernel and initramfs
	ahead   *telling     // set if it loaded kernel and initramfs before the storm
	bootID  fleet.BootID // its boot at the server; "": the server does not know it
}

// shortName names a node in messages.
func shortName(i int) string { return "node " + strconv.Itoa(i) }

// received returns the bytes received on the node's link since power-on.
func (n *node) received() (int64, error) {
	now, err := n.link.NodeReceived(n.index)
	return now - n.before, err
}

// bestName returns the name of the step with all features of Pando.
func bestName() string {
	all := own()
	return all[len(all)-1].Name
}
