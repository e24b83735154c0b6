package peer

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// acquainted waits until the nodes have their packs and know each other. It sets longer timeouts, because a busy
// machine takes longer than 75 ms.
func acquainted(t *testing.T, nodes ...*live) {
	t.Helper()
	for _, n := range nodes {
		n.wait(t)
		waitFor(t, func() bool { return n.sharing.Load() && n.o.Slow.AtLeast(0) > 4*time.Second })
	}
}

// Nodes that read the same demand object at the same moment wait for the node that the server sends it to. The server
// sends one copy.
func TestDemandObjectIsWaitedFor(t *testing.T) {
	s := newSite(t, 2, 1) // a byte per second: any transfer fills the uplink
	extra := []byte(strings.Repeat("firefox ", 5000))
	id := chunk.Sum(extra)
	s.objects[id.Name()] = extra
	var nodes []*live
	for i := range 8 {
		nodes = append(nodes, s.start(t, i))
	}
	acquainted(t, nodes...)
	before := s.sent.Load()
	s.gate = make(chan struct{})
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() {
			_, err := n.Get(t.Context(), chunk.Request{ID: id, Size: int64(len(extra))})
			errs <- err
		}()
	}
	waitFor(t, func() bool { // all have requested it, and most wait for others
		others := 0
		for _, n := range nodes {
			others += int(n.answering.Load())
		}
		return others >= len(nodes)-1
	})
	close(s.gate)
	for range nodes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := s.sent.Load() - before; got != int64(len(extra)) {
		t.Errorf("the server sent %d bytes for an object of %d", got, len(extra))
	}
	for _, n := range nodes {
		if n.reads.Wait(id, false, true) != nil || len(n.arriving) != 0 {
			t.Error("a node believes that something is on its way")
		}
	}
}

// A node that has left the swarm still reads demand objects.
func TestDemandObjectOfANodeThatStopped(t *testing.T) {
	s := newSite(t, 2, 0)
	extra := []byte("firefox")
	s.objects[chunk.Sum(extra).Name()] = extra
	a, b := s.start(t, 1), s.start(t, 2)
	for _, n := range []*live{a, b} {
		n.wait(t)
		waitFor(t, func() bool { return n.sharing.Load() })
	}
	a.cancel()
	<-a.ended
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Get(ctx, chunk.Request{ID: chunk.Sum(extra), Size: int64(len(extra))}); err != nil {
		t.Error(err)
	}
}

// givers returns the recent peers of a node.
func givers(n *live) (out []netip.AddrPort) {
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	id := chunk.Sum([]byte("another object"))
	r := n.reads.Begin(id, true)
	defer n.reads.End(r)
	for {
		asks, _ := r.Next(0)
		if len(asks) == 0 || asks[0].From != swarm.FromRecent {
			return out
		}
		out = append(out, asks[0].Peer)
		r.Failed(asks[0], swarm.Missing)
	}
}

// gave makes a node believe that a peer sent it a demand object.
func gave(n *live, a netip.AddrPort) {
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	r := n.reads.Begin(chunk.Sum([]byte("another object")), true)
	r.Came(swarm.DemandRequest{From: swarm.FromRecent, Peer: a})
	n.reads.End(r)
}

// The peer that sent a node its last demand object is asked for the next one first. If it has the object, the tracker
// is not asked.
func TestDemandObjectsComeFromRecentPeers(t *testing.T) {
	s := newSite(t, 2, 1) // a byte per second: any transfer fills the uplink
	var extras [3][]byte
	for i := range extras {
		extras[i] = []byte(strings.Repeat("firefox ", 1000+i))
		s.objects[chunk.Sum(extras[i]).Name()] = extras[i]
	}
	a, b := s.start(t, 1), s.start(t, 2)
	get := func(n *live, i int) {
		t.Helper()
		if v, err := n.Get(t.Context(),
			chunk.Request{ID: chunk.Sum(extras[i]), Size: int64(len(extras[i]))}); err != nil ||
			!bytes.Equal(v.Stored(), extras[i]) {
			t.Fatal(err)
		}
	}
	acquainted(t, a, b)
	get(a, 0)
	get(a, 1)
	get(b, 0)
	if got := givers(b); !slices.Equal(got, []netip.AddrPort{netip.AddrPortFrom(a.o.Self, a.o.Port)}) {
		t.Fatalf("the givers are %v", got)
	}
	asks, sent := s.demandRequests.Load(), s.sent.Load()
	get(b, 1)
	if s.demandRequests.Load() != asks || s.sent.Load() != sent {
		t.Errorf(
			"%d questions and %d bytes of the server for what the giver has",
			s.demandRequests.Load()-asks,
			s.sent.Load()-sent,
		)
	}
	// If the peer lacks the object, the tracker is asked as usual.
	get(b, 2)
	if s.demandRequests.Load() != asks+1 {
		t.Errorf("%d questions", s.demandRequests.Load()-asks)
	}
}

// Nodes that would ask each other in a circle, and all want the same object, do not wait for each other. One of them
// asks the tracker.
func TestRecentPeersInACircle(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	s.objects[chunk.Sum(extra).Name()] = extra
	nodes := []*live{s.start(t, 1), s.start(t, 2), s.start(t, 3)}
	acquainted(t, nodes...)
	for i, n := range nodes {
		next := nodes[(i+1)%len(nodes)]
		gave(n, netip.AddrPortFrom(next.o.Self, next.o.Port))
	}
	errs := make(chan error, len(nodes))
	began := time.Now()
	for _, n := range nodes {
		go func() {
			_, err := n.Get(t.Context(), chunk.Request{ID: chunk.Sum(extra), Size: int64(len(extra))})
			errs <- err
		}()
	}
	for range nodes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if took, wait := time.Since(began), nodes[0].o.Slow.AtLeast(0)/4; took >= wait {
		t.Errorf("took %v, and who waits in a circle takes %v", took, wait)
	}
}

// A recent peer that is fetching the object lets other nodes wait if it cannot be waiting for them: those with a higher
// address, or all once the tracker has named its sender.
func TestRecentPeerHasOthersWait(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	id := chunk.Sum(extra)
	s.objects[id.Name()] = extra
	low, sender, high := s.start(t, 1), s.start(t, 2), s.start(t, 3)
	acquainted(t, low, sender, high)
	read := sender.beginDemand(id) // its source is not decided yet
	waiting := func() int {
		return int(sender.answering.Load())
	}
	asks := s.demandRequests.Load()
	got := make(chan error, 3)
	get := func(n *live) {
		gave(n, netip.AddrPortFrom(sender.o.Self, sender.o.Port))
		_, err := n.Get(t.Context(), chunk.Request{ID: id, Size: int64(len(extra))})
		got <- err
	}
	go get(high)
	waitFor(t, func() bool { return waiting() == 1 })
	get(low) // refused, so it asks the tracker
	if s.demandRequests.Load() != asks+1 {
		t.Errorf("%d questions to the tracker, want one", s.demandRequests.Load()-asks)
	}
	low.Node.mu.Lock()
	low.demand = demandCache{most: low.demand.most}
	low.Node.mu.Unlock()
	sender.Node.mu.Lock()
	read.Next(sender.now())
	read.Answered(nil, 0)
	read.Next(sender.now())
	sender.Node.mu.Unlock()
	go get(low)
	waitFor(t, func() bool { return waiting() == 2 })
	v, err := chunk.Check(id, extra)
	if err != nil {
		t.Fatal(err)
	}
	sender.Node.mu.Lock()
	sender.Node.demand.put(id, v)
	sender.Node.mu.Unlock()
	sender.endDemand(id, read)
	for range 3 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if s.demandRequests.Load() != asks+1 {
		t.Errorf("%d questions to the tracker, want one", s.demandRequests.Load()-asks)
	}
}

// A recent peer that is gone causes no wait.
func TestRecentPeerThatIsGone(t *testing.T) {
	s := newSite(t, 2, 1)
	a, b := s.start(t, 1), s.start(t, 2)
	acquainted(t, a, b)
	gave(a, netip.AddrPortFrom(b.o.Self, b.o.Port))
	b.Leave(t.Context())
	waitFor(t, func() bool { return len(givers(a)) == 0 })
	extra := []byte("firefox")
	s.objects[chunk.Sum(extra).Name()] = extra
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	gave(a, closed)
	if _, err := a.Get(t.Context(), chunk.Request{ID: chunk.Sum(extra), Size: int64(len(extra))}); err != nil ||
		slices.Contains(givers(a), closed) {
		t.Errorf("%v, givers %v", err, givers(a))
	}
}

// Two recent peers are asked, the latest first.
func TestSecondRecentPeer(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	a, b, c := s.start(t, 1), s.start(t, 2), s.start(t, 3)
	acquainted(t, a, b, c)
	v, err := chunk.Check(chunk.Sum(extra), extra)
	if err != nil {
		t.Fatal(err)
	}
	b.Node.mu.Lock()
	b.Node.demand.put(v.ID(), v)
	b.Node.mu.Unlock()
	at := func(n *live) netip.AddrPort { return netip.AddrPortFrom(n.o.Self, n.o.Port) }
	for _, n := range []*live{a, b, c} {
		gave(a, at(n))
	}
	if got := givers(a); !slices.Equal(got, []netip.AddrPort{at(c), at(b)}) {
		t.Fatalf("givers %v", got)
	}
	if _, err := a.Get(t.Context(), chunk.Request{ID: v.ID(), Size: int64(len(extra))}); err != nil {
		t.Fatal(err)
	}
	if got := givers(a); s.demandRequests.Load() != 0 || !slices.Equal(got, []netip.AddrPort{at(b), at(c)}) {
		t.Errorf("%d questions to the tracker, givers %v", s.demandRequests.Load(), got)
	}
}

// A recent peer that sends wrong bytes is reported and not asked again. The read still succeeds.
func TestRecentPeerThatLies(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	s.objects[chunk.Sum(extra).Name()] = extra
	liar := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("thunder")) }),
	)
	defer liar.Close()
	a, b := s.start(t, 1), s.start(t, 2)
	acquainted(t, a, b)
	from := netip.MustParseAddrPort(liar.Listener.Addr().String())
	gave(a, from)
	v, err := a.Get(t.Context(), chunk.Request{ID: chunk.Sum(extra), Size: int64(len(extra))})
	if err != nil || !bytes.Equal(v.Stored(), extra) {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bad) != 1 {
		t.Errorf("reported corrupt %v", a.bad)
	}
}
