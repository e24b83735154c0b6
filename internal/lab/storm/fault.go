package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
	"pando/internal/blockapi"
)

// fault is something that goes wrong during a storm.
type fault struct {
	name string
	what string
	// how additional bad peers spoil what they send; "": there are none
	bad    string
	strike func(ctx context.Context, s *Storm, nodes []*node) error // causes the fault; nil: there is no moment for it
	// ends what strike began, after the storm; nil: nothing to do
	repair func(s *Storm, nodes []*node) error
	// strike chooses the moment of each node itself; otherwise it is called after half of W/(eta B)
	each  bool
	cache cacheState              // state of the nodes' cache disks
	tells []blockapi.IncidentKind // a timeline has to have one of these incidents
	of    whom                    // the nodes whose timeline has to
}

// noFault is the storm without a fault, with which others are compared.
const noFault = "none"

// serverAway is how long a killed server is down.
const serverAway = 120 * time.Second

// faultShare is the share of the nodes that a fault affects.
const faultShare = 0.2

func faults() []fault {
	left := []blockapi.IncidentKind{blockapi.PeerFailed, blockapi.PeerLeft}
	return []fault{
		{name: noFault, what: "nothing goes wrong"},
		{
			name:   "peers-killed",
			what:   "a fifth of the nodes is killed",
			strike: killPeers,
			tells:  []blockapi.IncidentKind{blockapi.PeersGone},
			of:     eachFed,
		},
		{
			name:   "peers-unplugged",
			what:   "a fifth of the nodes loses power, without notice to the others",
			strike: unplugPeers,
			repair: plugPeers,
			tells:  []blockapi.IncidentKind{blockapi.PeersGone, blockapi.PeerFailed, blockapi.PeerLeft},
			of:     oneWaiting,
		},
		{name: "server-killed", what: "the server is killed, and back after " + serverAway.String(),
			strike: func(ctx context.Context, s *Storm, _ []*node) error { return s.killServer(ctx, serverAway) },
			tells:  []blockapi.IncidentKind{blockapi.ServerDown}, of: eachWaiting},
		{name: "tracker-lost", what: "the server is killed, and back at once: its tracker has forgotten all",
			strike: func(ctx context.Context, s *Storm, _ []*node) error { return s.killServer(ctx, 0) },
			tells:  []blockapi.IncidentKind{blockapi.TrackerLost}, of: eachWaiting},
		{name: "corrupt-peer", what: "a fifth more peers, which send wrong bytes", bad: "corrupt",
			tells: []blockapi.IncidentKind{blockapi.PeerBanned}, of: eachDeceived},
		{name: "short-peer", what: "a fifth more peers, which break off", bad: "short", tells: left, of: eachBroken},
		{
			name:  "endless-peer",
			what:  "a fifth more peers, which never stop sending",
			bad:   "endless",
			tells: []blockapi.IncidentKind{blockapi.PeerBanned},
			of:    eachDeceived,
		},
		{
			name:  "slow-peer",
			what:  "a fifth more peers, which send at a tenth of the speed",
			bad:   "slow",
			tells: left,
			of:    eachSlowed,
		},
		{name: "cache-empty", what: "each node has a cache disk, an empty one", cache: cacheEmpty},
		{name: "cache-warm", what: "each node's cache disk has what it booted before", cache: cacheWarm},
		{
			name:  "cache-read-only",
			what:  "cache disks, empty, to which no write succeeds",
			cache: cacheReadOnly,
			tells: []blockapi.IncidentKind{blockapi.CacheFailed},
			of:    eachNode,
		},
		{
			name:  "cache-full",
			what:  "cache disks, empty, with room for half of W",
			cache: cacheFull,
			tells: []blockapi.IncidentKind{blockapi.CacheFailed},
			of:    eachNode,
		},
		{
			name:  "cache-corrupt",
			what:  "warm cache disks with wrong bytes at random places, one in 32 KiB",
			cache: cacheCorrupt,
			tells: []blockapi.IncidentKind{blockapi.CacheDamaged, blockapi.CacheFailed},
			of:    eachNode,
		},
		{
			name:   "cache-removed",
			what:   "warm cache disks are taken away while the nodes read them",
			cache:  cacheRemoved,
			each:   true,
			strike: func(ctx context.Context, s *Storm, nodes []*node) error { return s.disks.removeAll(ctx, nodes) },
			tells:  []blockapi.IncidentKind{blockapi.CacheFailed, blockapi.CacheDamaged},
			of:     eachNode,
		},
	}
}

func faultNames() (out []string) {
	for _, f := range faults() {
		out = append(out, f.name)
	}
	return out
}

func findFault(name string) fault {
	for _, f := range faults() {
		if f.name == name {
			return f
		}
	}
	return fault{name: name}
}

func affected(n int) int { return max(1, int(faultShare*float64(n))) }

func killPeers(_ context.Context, _ *Storm, nodes []*node) error {
	for _, n := range nodes[:affected(len(nodes))] {
		n.killed.Store(true)
		if pid := n.daemon.Load(); pid > 0 {
			if err := unix.Kill(int(pid), unix.SIGKILL); err != nil {
				return err
			}
		}
	}
	return nil
}

// unplugPeers kills nodes whose links are down, so that their kernels cannot close the connections to other nodes.
func unplugPeers(ctx context.Context, s *Storm, nodes []*node) error {
	for _, n := range nodes[:affected(len(nodes))] {
		if err := s.Star.Unplug(n.index); err != nil {
			return err
		}
	}
	return killPeers(ctx, s, nodes)
}

func plugPeers(s *Storm, nodes []*node) (err error) {
	for _, n := range nodes[:affected(len(nodes))] {
		err = errors.Join(err, s.Star.Plug(n.index))
	}
	return err
}

func (s *Storm) killServer(ctx context.Context, away time.Duration) error {
	if err := s.Site.Kill(); err != nil {
		return err
	}
	if err := bench.Pause(ctx, away); err != nil {
		return err
	}
	return s.Site.Start(ctx)
}

// strikeAfter causes the fault of a run when the storm has lasted half of W/(eta B), or for each node at its own
// moment. The caller calls wait when all nodes are done; nodes whose moment has not come by then are spared.
func (s *Storm) strikeAfter(ctx context.Context, r *stormRun, nodes []*node) (wait func() error) {
	f := findFault(r.Fault)
	if f.strike == nil {
		return func() error { return nil }
	}
	age := time.Duration(r.Unit / 2 * float64(time.Second))
	over := func() {}
	if f.each {
		age = 0
		ctx, over = context.WithCancel(ctx)
	}
	done := make(chan error, 1)
	go func() {
		err := bench.Pause(ctx, age)
		if err == nil {
			err = f.strike(ctx, s, nodes)
		}
		done <- err
	}()
	return func() error {
		over()
		return <-done
	}
}

// planFaults lists the runs. The run without a fault comes first.
func (s *Storm) planFaults() (out []job) {
	if len(s.faults) == 0 {
		return nil
	}
	for _, name := range append([]string{noFault}, s.faults...) {
		out = append(out, job{System: bestName(), Nodes: slices.Max(s.nodes), Fault: name})
	}
	return out
}

// checkFaults returns an error for a wrong --fault.
func (s *Storm) checkFaults() error {
	if slices.Equal(s.faults, []string{"all"}) {
		s.faults = faultNames()[1:]
	}
	for _, name := range s.faults {
		if !slices.Contains(faultNames()[1:], name) {
			return fmt.Errorf("fault %q: there are %s, or all", name, strings.Join(faultNames()[1:], ", "))
		}
	}
	if len(s.faults) > 0 && slices.Max(s.nodes) < 2 {
		return errors.New("--fault: one node has no peers")
	}
	s.tell = s.tell ||
		len(s.faults) > 0 && !s.Given["tell"] // whether it is on the server's timelines is half of what is asked
	return nil
}

// booted counts the nodes that booted and read the right bytes, and the killed nodes.
func (r stormRun) booted() (booted, killed int) {
	for _, n := range r.Each {
		if n.Killed {
			killed++
		} else if n.up() {
			booted++
		}
	}
	return booted, killed
}

var faultHeads = bench.Row{
	"fault",
	"what",
	"nodes",
	"booted",
	"wrong answers, dropped",
	"t_last, to none",
	"what nodes told",
	"who has to tell",
}

// faultRows returns a line for each fault.
func (r *report) faultRows() (out []bench.Row) {
	for _, x := range r.faultRuns() {
		booted, killed := x.booted()
		nodes := fmt.Sprint(len(x.Each))
		if killed > 0 {
			nodes += fmt.Sprintf(", %d of them killed", killed)
		}
		rejected := int64(0)
		for _, n := range x.Each {
			rejected += n.Taken.Rejected
		}
		ratio := "-"
		if none, ok := r.faultless(x); ok {
			ratio = fmt.Sprintf("%.2f", x.units()/none.units())
		}
		switch {
		case x.failed():
			ratio = "**failed**"
		case x.Discarded:
			ratio = "discarded: " + x.Load.TooBusy()
		}
		out = append(
			out,
			bench.Row{
				x.Fault,
				findFault(x.Fault).what,
				nodes,
				fmt.Sprint(booted),
				fmt.Sprint(rejected),
				ratio,
				x.told(),
				findFault(x.Fault).of.text,
			},
		)
	}
	return out
}

// faultless returns the run to compare with: the last one without a fault that did not begin later.
func (r *report) faultless(of stormRun) (out stormRun, ok bool) {
	for _, x := range r.Faults {
		if x.Fault == noFault && x.Nodes == of.Nodes && !x.Discarded && !x.failed() && !x.Began.After(of.Began) {
			out, ok = x, true
		}
	}
	return out, ok
}
