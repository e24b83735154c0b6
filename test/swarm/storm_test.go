package swarm

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
)

// together starts and boots nodes at the same moment, and returns them. It calls during while they boot.
func (f *fleet) together(nodes []int, during func([]*node), change ...func(*blockapi.Config)) []*node {
	f.t.Helper()
	out := make([]*node, len(nodes))
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	var mu sync.Mutex
	for at, i := range nodes {
		all.Go(func() {
			n, err := f.start(i, change...)
			if err == nil {
				f.t.Cleanup(n.Close)
				mu.Lock()
				out[at] = n
				mu.Unlock()
				err = n.boot()
			}
			errs[at] = err
		})
	}
	if during != nil {
		during(out)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fleet) sent() int64 {
	f.t.Helper()
	n, err := f.star.ServerSent()
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func numbers(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// mostSent bounds what the server sends to a storm of eight nodes, in units of W: half of what it would send without a
// swarm. An idle machine needs about a third of that.
const mostSent = 4

// Eight nodes boot at once from a server with a link as fast as theirs, and get most bytes from each other. A later
// node gets almost everything from nodes that have booted, and no node waits for nodes that left.
func TestStorm(t *testing.T) {
	f := newFleet(t, 10)
	before := f.sent()
	nodes := f.together(numbers(8), nil)
	link := float64(f.sent()-before) / float64(f.w())
	var server, peers, memory int64
	for _, n := range nodes {
		st := n.status(func(st blockapi.Status) bool { return st.Bytes["server"]+st.Bytes["peer"] >= f.w() })
		server, peers, memory = server+st.Bytes["server"], peers+st.Bytes["peer"], max(memory, st.Memory)
	}
	got := float64(server) / float64(f.w())
	t.Logf(
		"the server sent %.2f W of objects, its link %.2f W; peers %.2f W; a daemon takes %.1f MB",
		got,
		link,
		float64(peers)/float64(f.w()),
		float64(memory)/1e6,
	)
	if got > mostSent {
		t.Errorf("the server sent %.2f W of objects, want at most %d", got, mostSent)
	}
	late := f.together([]int{8}, nil)[0].now()
	if late.Bytes["peer"] < f.w()*3/4 {
		t.Errorf("one that came late has %d bytes of peers, W is %d", late.Bytes["peer"], f.w())
	}
	for i, n := range nodes[:6] { // half of them say goodbye
		if i%2 == 0 {
			f.check(n.Client.Leave(t.Context()))
		}
		n.Close()
	}
	last := f.together([]int{9}, nil)[0].now()
	if last.Bytes["peer"] < f.w()/2 {
		t.Errorf("the last one has %d bytes of peers, W is %d", last.Bytes["peer"], f.w())
	}
}

// The server is killed during a storm and restarted without its tracker's data; every boot completes.
func TestServerRestartedInAStorm(t *testing.T) {
	f := newFleet(t, 8)
	nodes := f.together(numbers(8), func(nodes []*node) {
		for f.sent() < f.w()/2 {
			time.Sleep(10 * time.Millisecond) // saves processor time; the transfer continues
		}
		f.check(f.site.Kill())
		f.check(f.site.Start(t.Context()))
	})
	var server int64
	for _, n := range nodes {
		st := n.status(
			func(st blockapi.Status) bool {
				return told(st, blockapi.TrackerLost, "") == told(st, blockapi.TrackerUp, "")
			},
		)
		server += st.Bytes["server"]
	}
	t.Logf("servers sent %.2f W of objects", float64(server)/float64(f.w()))
	if server > 3*f.w() {
		t.Errorf("the servers sent %d bytes, W is %d", server, f.w())
	}
}

// A group with peers off has no peers; a group that is limited to its rack has only those.
func TestPeersOffAndRack(t *testing.T) {
	f := newFleet(t, 4)
	for _, n := range f.together([]int{0, 1}, nil, func(c *blockapi.Config) { c.Swarm = nil }) {
		if st := n.now(); st.Bytes["peer"]+st.Uploaded != 0 || st.Bytes["server"] < f.w() {
			t.Errorf("without peers: %+v", st)
		}
		n.Close()
	}
	rack := func(place string) func(*blockapi.Config) {
		return func(c *blockapi.Config) { c.Swarm = &blockapi.SwarmConfig{Place: place, LocalOnly: true} }
	}
	a := f.together([]int{0, 1}, nil, rack("a"))
	b := f.together([]int{2}, nil, rack("b"))[0].now()
	if b.Bytes["peer"]+b.Uploaded != 0 {
		t.Errorf("alone in its rack: %+v", b)
	}
	late := f.together([]int{3}, nil, rack("a"))[0].now()
	if late.Bytes["peer"] < f.w()/2 {
		t.Errorf("in a rack with two others: %+v", late)
	}
	for _, n := range a {
		if st := n.now(); st.Errors > 0 {
			t.Errorf("status %+v", st)
		}
	}
}

// A node whose daemon is killed during its boot, and a node that leaves, delay no other node.
func TestPeersDieInAStorm(t *testing.T) {
	f := newFleet(t, 10)
	victims := []*node{}
	for _, i := range []int{8, 9} {
		n, err := f.start(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		victims = append(victims, n)
	}
	nodes := f.together(numbers(8), func([]*node) {
		for f.sent() < f.w()/2 {
			time.Sleep(10 * time.Millisecond) // saves processor time; the transfer continues
		}
		for _, v := range victims {
			f.check(unix.Kill(v.PID(), unix.SIGKILL))
		}
	})
	var server int64
	for _, n := range nodes {
		server += n.now().Bytes["server"]
	}
	t.Logf("the server sent %.2f W of objects", float64(server)/float64(f.w()))
	gone := func(n *node) bool { return told(n.now(), blockapi.PeersGone, "") }
	// the pause saves processor time
	for end := time.Now().Add(time.Minute); !slices.ContainsFunc(nodes, gone); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no node tells that peers are gone")
		}
	}
	if server > 2*f.w() {
		t.Errorf("the server sent %d bytes, W is %d", server, f.w())
	}
}
