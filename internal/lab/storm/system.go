package storm

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"pando/internal/bench"
	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/node/blockd"
	"pando/internal/testkit"
)

// completing is a root that knows when all was there that a boot reads.
type completing interface {
	complete(ctx context.Context, beyond bool) (time.Time, error)
}

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
func steps() map[string]pandoStep {
	return map[string]pandoStep{
		"chunks":   {},
		"pack":     {pack: true, idle: true},
		"prefetch": {pack: true},
		"peers":    {pack: true, peers: true},
	}
}

// serveSystem starts what a run needs. For Pando's own systems the server is started anew: its tracker forgets the run
// before, and it is told what its link is, since it admits nodes by that.
func (s *Storm) serveSystem(ctx context.Context, m *material) (stop func(), err error) {
	s.served = bench.Served{}
	if _, ours := steps()[s.job.System]; ours {
		if err := s.site.Close(); err != nil {
			return nil, err
		}
		if err := s.serve(ctx, "off", s.linkFlags()...); err != nil {
			return nil, err
		}
		return func() {}, s.settle(ctx)
	}
	serve := s.system(s.job.System).Serve
	if serve == nil {
		return func() {}, nil
	}
	if s.served, err = serve(ctx, s.host(), m.Image); err != nil {
		return nil, err
	}
	return func() {
		s.served.End()
		s.served = bench.Served{}
	}, nil
}

// host is where the servers of rivals run.
func (s *Storm) host() bench.Host { return bench.Host{Net: s.star.Server, Dir: s.Dir} }

// attach makes the root of a system that can be read, on the node. What it took is in the root.
func (n *node) attach(ctx context.Context, sys bench.System) (bench.Root, error) {
	if step, ours := steps()[sys.Name]; ours {
		return n.pando(ctx, step)
	}
	return sys.Attach(ctx, bench.Client{Net: n.net, Dir: n.dir, Bin: n.bin, Image: n.m.Image})
}

// pandoStep is how far a node goes.
type pandoStep struct{ pack, idle, peers bool }

func names(of []bench.System) (out []string) {
	for _, s := range of {
		out = append(out, s.Name)
	}
	return out
}

func (s *Storm) system(name string) bench.System {
	for _, x := range append(s.systems(), s.more...) {
		if x.Name == name {
			return x
		}
	}
	panic("no system " + name) // flags were checked
}

// node is one machine of a storm.
type node struct {
	index  int
	net    *testkit.Net
	link   *testkit.Star
	killed atomic.Bool  // by a fault
	daemon atomic.Int64 // process id of its block daemon; 0: none
	before int64        // bytes that it had received before it was switched on
	dir    string       // of its own
	server string       // base URL of the data path
	bin    string
	m      *material
	disk   *blockapi.CacheDisk // nil: none
	works  bool                // between its reads, and does not sleep
	tells  bool                // the server knows it, and hears how far it is
	loads  bool                // it loads kernel and initramfs before its root
	ahead  *telling            // it has its kernel and initramfs before the storm begins; nil: not
	bootID fleet.BootID        // as the server names it; "": it does not
}

// pandoRoot is a root that a block daemon serves.
type pandoRoot struct {
	*blockd.Alone
	began time.Time // when its daemon was started
}

func (p *pandoRoot) ReadAt(b []byte, off int64) (int, error) { return p.Device.ReadAt(b, off) }

// The counters of the block daemon that say what was received; the others say what was served without.
var received = map[string]bool{"server": true, "peer": true}

func (p *pandoRoot) Usage(ctx context.Context) (bench.Usage, error) {
	st, err := p.Client.Status(ctx, 0)
	if err != nil {
		return bench.Usage{}, err
	}
	t := bench.Usage{
		Received:  map[string]int64{},
		Served:    map[string]int64{},
		Failures:  st.Failures + st.Rejected,
		Rejected:  st.Rejected,
		Messages:  st.Messages,
		Control:   st.Control,
		Usual:     st.Usual.Seconds(),
		Incidents: map[string]int{},
		Fed:       st.Fed,
	}
	for _, i := range st.Incidents {
		t.Incidents[string(i.Kind)]++
	}
	for source, bytes := range st.Bytes {
		if received[source] {
			t.Received[source] = bytes
		} else {
			t.Served[source] = bytes
		}
	}
	if st.Errors > 0 {
		return t, fmt.Errorf("%d reads were answered with an error", st.Errors)
	}
	if t.CPU, t.Memory, err = bench.ProcessCost(p.PID()); err != nil {
		return t, err
	}
	r, err := p.Client.EndReads(ctx)
	t.Hits, t.Misses, t.Wasted = r.Hits, r.Misses, r.Wasted
	return t, err
}

// complete is when all was there that a boot reads until booted or, of one that goes on until a mark beyond that,
// all of the boot pack; zero: it is not.
func (p *pandoRoot) complete(ctx context.Context, beyond bool) (time.Time, error) {
	st, err := p.Client.Status(ctx, 0)
	took := st.Complete
	if beyond {
		took = st.Whole
	}
	if err != nil || took == 0 {
		return time.Time{}, err
	}
	return p.began.Add(took), nil
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

// Others are the ways that stand beside Pando's own.
type Others struct {
	Systems []bench.System
	Kernel  []bench.KernelRival // of emulated machines
}
