package netboot

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"pando/internal/fleet"
)

// How Sources treats a running node.
const (
	// A node that failed sourceFailures times in a row is not named for sourceRest.
	sourceFailures = 2
	sourceRest     = time.Minute
	// A node that has reported nothing for sourceSilent is not named: it may be off. Nodes report about every minute.
	sourceSilent = 150 * time.Second
)

// Objects names kernel and initramfs of a boot: object ids of 64 hex digits.
type Objects struct{ Kernel, Initramfs string }

// Source is a running node that has kernel and initramfs of its boot as a file, and serves them.
type Source struct {
	MAC     fleet.MAC
	Node    string // its name
	Address netip.AddrPort
	Prefix  int    // length of its subnet's prefix; 0: not known
	Place   string // rack or switch; "": not declared
	Objects Objects
}

// Base is the base URL under which the node serves its objects.
func (s Source) Base() string { return "http://" + s.Address.String() }

// Machine is one that is about to load kernel and initramfs.
type Machine struct {
	MAC     fleet.MAC
	Address netip.Addr
	Place   string // rack or switch; "": not declared
	Local   bool   // only from its place or subnet
	Objects Objects
}

// Sources decides which running nodes send kernel and initramfs to which machines. The caller passes the time, which
// must not go back. Sources is not safe for concurrent use.
type Sources struct {
	nodes map[fleet.MAC]*sourceState
	at    map[fleet.MAC]*sourceState // the node that a machine was sent to
	free  map[Objects]int            // nodes that serve nobody now
	swept time.Time
}

type sourceState struct {
	Source
	loads  map[fleet.MAC]time.Time // machines that were sent to it, and when
	failed int                     // loads that failed in a row
	rests  time.Time               // it is not named before
	seen   time.Time               // when it reported last
	used   time.Time               // when a machine was last sent to it
}

// NewSources returns an empty set.
func NewSources() *Sources {
	return &Sources{nodes: map[fleet.MAC]*sourceState{}, at: map[fleet.MAC]*sourceState{}, free: map[Objects]int{}}
}

// Add records a node that has booted. It replaces what is known of the node. At the zero time the node counts as one
// that never falls silent.
func (s *Sources) Add(now time.Time, x Source) {
	s.Remove(x.MAC)
	s.nodes[x.MAC] = &sourceState{Source: x, loads: map[fleet.MAC]time.Time{}, seen: now}
	s.free[x.Objects]++
}

// Saw records a report of a node. It returns false if the node serves nothing.
func (s *Sources) Saw(now time.Time, mac fleet.MAC) bool {
	n := s.nodes[mac]
	if n != nil {
		n.seen = now
	}
	return n != nil
}

// ready reports whether a node may be named.
func (n *sourceState) ready(now time.Time) bool {
	return !now.Before(n.rests) && (n.seen.IsZero() || now.Sub(n.seen) <= sourceSilent)
}

// Remove records that a node does not run any more.
func (s *Sources) Remove(mac fleet.MAC) {
	if n := s.nodes[mac]; n != nil {
		for m := range n.loads {
			s.leave(m)
		}
		if s.free[n.Objects]--; s.free[n.Objects] == 0 {
			delete(s.free, n.Objects)
		}
		delete(s.nodes, mac)
	}
}

// enter sends a machine to a node.
func (s *Sources) enter(now time.Time, mac fleet.MAC, n *sourceState) {
	if s.at[mac] != n {
		s.leave(mac)
		s.at[mac] = n
		if len(n.loads) == 0 {
			s.free[n.Objects]--
		}
	}
	n.loads[mac], n.used = now, now
}

// leave takes a machine away from its node, if it has one.
func (s *Sources) leave(mac fleet.MAC) {
	n := s.at[mac]
	if n == nil {
		return
	}
	delete(s.at, mac)
	if delete(n.loads, mac); len(n.loads) == 0 {
		s.free[n.Objects]++
	}
}

// Count returns how many nodes have these objects.
func (s *Sources) Count(o Objects) (n int) {
	for _, x := range s.nodes {
		if x.Objects == o {
			n++
		}
	}
	return n
}

// Ready returns how many nodes with these objects may be named now, whether they serve somebody or not.
func (s *Sources) Ready(now time.Time, o Objects) (n int) {
	for _, x := range s.nodes {
		if x.Objects == o && x.ready(now) {
			n++
		}
	}
	return n
}

// Pick returns the nodes that a machine is to load from, the best first; none if all are busy. The first one serves
// nobody else until Done, or until the load takes too long: one at full rate passes kernel+initrd on sooner than two
// that share a link. A machine that asks again keeps its node.
func (s *Sources) Pick(now time.Time, l Machine) []Source {
	s.expire(now)
	mine := s.at[l.MAC]
	if mine == nil && s.free[l.Objects] == 0 {
		return nil
	}
	var found []*sourceState
	for _, n := range s.nodes {
		if n.Objects == l.Objects && n.MAC != l.MAC && n.ready(now) && (!l.Local || n.proximity(l) > 0) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *sourceState) int {
		return cmp.Or(-cmpBool(a == mine, b == mine), cmp.Compare(len(a.loads), len(b.loads)),
			cmp.Compare(b.proximity(l), a.proximity(l)), a.used.Compare(b.used), fleet.CompareNames(a.Node, b.Node))
	})
	if len(found) == 0 || found[0] != mine && len(found[0].loads) > 0 {
		return nil
	}
	s.enter(now, l.MAC, found[0])
	var out []Source
	for _, n := range found[:min(len(found), MaxNeighbours)] {
		out = append(out, n.Source)
	}
	return out
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// proximity is 2 for a machine of the node's place, 1 for one of its subnet, else 0.
func (n *sourceState) proximity(l Machine) int {
	if n.Place != "" && n.Place == l.Place {
		return 2
	}
	if subnet, err := n.Address.Addr().Prefix(n.Prefix); err == nil && n.Prefix > 0 && subnet.Contains(l.Address) {
		return 1
	}
	return 0
}

// expire frees the places of machines that took too long: they were switched off, or a node sends very slowly.
func (s *Sources) expire(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	for mac, n := range s.at {
		if now.Sub(n.loads[mac]) > longest {
			s.leave(mac)
			n.fail(now)
		}
	}
}

func (n *sourceState) fail(now time.Time) {
	if n.failed++; n.failed >= sourceFailures {
		n.failed, n.rests = 0, now.Add(sourceRest)
	}
}

// Failed records that nodes did not deliver.
func (s *Sources) Failed(now time.Time, nodes ...fleet.MAC) {
	for _, mac := range nodes {
		if n := s.nodes[mac]; n != nil {
			n.fail(now)
		}
	}
}

// Done records that a machine has loaded: from is the node that delivered, failed are those that did not. A zero MAC
// means no node.
func (s *Sources) Done(now time.Time, machine, from fleet.MAC, failed ...fleet.MAC) {
	s.leave(machine)
	s.Failed(now, failed...)
	if n := s.nodes[from]; n != nil && !slices.Contains(failed, from) {
		n.failed = 0
	}
}
