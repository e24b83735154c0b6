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
)

func TestLooseObjectsAreNamedOnceTheUplinkIsSpent(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Brief()
	for n := byte(1); n <= 3; n++ {
		join(t, tr, 0, n)
	}
	ask := func(now time.Duration, id chunk.Brief, n byte) []netip.AddrPort {
		names, wait := tr.Loose(now, id, at(n), 1000)
		if (len(names) > 0) != (wait > 0) {
			t.Errorf("named %v, to be waited for %s", names, wait)
		}
		return names
	}
	if got := ask(0, id, 1); got != nil {
		t.Fatalf("the first one is sent to %v", got)
	}
	if got := ask(time.Second, id, 2); got != nil {
		t.Fatalf("with a free uplink sent to %v", got)
	}
	tr.uplink.pass(time.Second, 10_000)
	if got := ask(time.Second, id, 3); !slices.Equal(got, []netip.AddrPort{at(1), at(2)}) {
		t.Errorf("named %v", got)
	}
	if got := ask(time.Second, chunk.Sum(nil).Brief(), 3); got != nil {
		t.Errorf("nobody has it, and it is sent to %v", got)
	}
	tr.uplink.pass(time.Hour, 10_000)
	join(t, tr, time.Hour, 1)
	if got := ask(time.Hour, id, 1); got != nil {
		t.Errorf("those may have let go of it: %v", got)
	}
}

// While K fills the uplink, who has it is named though the pieces leave room; and what nobody has is sent.
func TestLooseObjectsWhileKIsSent(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Brief()
	join(t, tr, 0, 1)
	join(t, tr, 0, 2)
	tr.Busy(true)
	if got, _ := tr.Loose(0, id, at(1), 1000); got != nil {
		t.Errorf("nobody has it, and it is sent to %v", got)
	}
	if got, _ := tr.Loose(time.Second, id, at(2), 1000); !slices.Equal(got, []netip.AddrPort{at(1)}) {
		t.Errorf("named %v", got)
	}
	if peers, wait := tr.Start(time.Second, Start{Swarm: "p", Size: 1000}); wait || len(peers) == 0 {
		t.Errorf("of what boots start with: %v, %v", peers, wait)
	}
}

// A crowd that wants the same at the same moment has it from each other: each sends it a few times, to those that
// came later, so that nobody waits for himself; and the way from the server is short.
func TestLooseObjectsGoRoundAsATree(t *testing.T) {
	tr := newTracker()
	id := chunk.Sum([]byte("firefox")).Brief()
	for n := byte(1); n <= 200; n++ {
		join(t, tr, 0, n)
	}
	tr.uplink.pass(0, 1<<20)
	sends, depth, deepest := map[netip.AddrPort]int{}, map[netip.AddrPort]int{}, 0
	for n := byte(1); n <= 200; n++ {
		names, _ := tr.Loose(0, id, at(n), 1000)
		if (len(names) == 0) != (n == 1) || len(names) > looseNames {
			t.Fatalf("node %d is named %v", n, names)
		}
		for i, from := range names {
			if from.Addr().As4()[3] >= n {
				t.Errorf("node %d waits for %v, which came later", n, from)
			}
			if i == 0 {
				sends[from]++
				depth[at(n)] = depth[from] + 1
				deepest = max(deepest, depth[at(n)])
			}
		}
	}
	for from, times := range sends {
		if times > looseNamed {
			t.Errorf("%v sends it %d times", from, times)
		}
	}
	if deepest > 8 {
		t.Errorf("it goes through %d hands", deepest)
	}
}

// What is remembered has bounds, whatever is asked.
func TestLooseObjectsHaveBounds(t *testing.T) {
	var l loose
	for i := range maxLoose + 10 {
		l.add(0, chunk.Sum([]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Brief(), at(1))
	}
	id := chunk.Sum([]byte("firefox")).Brief()
	for n := range 100 {
		l.add(0, id, at(byte(n)))
	}
	l.add(0, id, netip.AddrPort{})
	if len(l.objects) != maxLoose || len(l.order) != maxLoose || len(l.objects[id]) != maxFetchers {
		t.Errorf("%d objects, %d in order, %d fetchers of one", len(l.objects), len(l.order), len(l.objects[id]))
	}
	l.add(looseFor+1, id, at(200))
	if got := l.objects[id]; len(got) != 1 || got[0].node != at(200) {
		t.Errorf("after a while: %v", got)
	}
}

// patient is how long a node waits for its tracker's word on a loose object.
func patient(n *live) time.Duration {
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	return n.reads.looseTime()
}

// acquainted waits until nodes have their pack, know others, and have more patience than usual: a busy machine
// takes longer than 75 ms.
func acquainted(t *testing.T, nodes ...*live) {
	t.Helper()
	for _, n := range nodes {
		n.wait(t)
		waitFor(t, func() bool { return n.sociable.Load() && patient(n) > time.Second })
	}
}

// Nodes that read the same loose object at the same moment wait for the one that the server sends it to: there is
// one copy for all of them.
func TestLooseObjectIsWaitedFor(t *testing.T) {
	s := newSite(t, 2, 1) // a byte a second: whatever is sent spends it
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
	waitFor(t, func() bool { // all have asked, and most wait for others
		others := 0
		for _, n := range nodes {
			n.Node.mu.Lock()
			if w := n.reads.awaited[id]; w != nil {
				others += w.others
			}
			n.Node.mu.Unlock()
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
		if len(n.reads.awaited) != 0 || len(n.arrives) != 0 {
			t.Error("a node believes that something is on its way")
		}
	}
}

// A node that has stopped to take part, because it goes down, still reads.
func TestLooseObjectOfANodeThatStopped(t *testing.T) {
	s := newSite(t, 2, 0)
	extra := []byte("firefox")
	s.objects[chunk.Sum(extra).Name()] = extra
	a, b := s.start(t, 1), s.start(t, 2)
	for _, n := range []*live{a, b} {
		n.wait(t)
		waitFor(t, func() bool { return n.sociable.Load() })
	}
	a.cancel()
	<-a.ended
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Get(ctx, chunk.Request{ID: chunk.Sum(extra), Size: int64(len(extra))}); err != nil {
		t.Error(err)
	}
}

// givers are those that a node asks first.
func givers(n *live) []netip.AddrPort {
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	return slices.Clone(n.reads.givers)
}

// gave has a node believe that another one gave it a loose object.
func gave(n *live, a netip.AddrPort) {
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	n.reads.gave(a)
}

// Who gave a node its last loose object is asked for the next one first, and the tracker not at all when he has it.
func TestLooseObjectsComeFromTheirGiver(t *testing.T) {
	s := newSite(t, 2, 1) // a byte a second: whatever is sent spends it
	var extras [3][]byte
	for i := range extras {
		extras[i] = []byte(strings.Repeat("firefox ", 1000+i))
		s.objects[chunk.Sum(extras[i]).Name()] = extras[i]
	}
	a, b := s.start(t, 1), s.start(t, 2)
	get := func(n *live, i int) {
		t.Helper()
		if v, err := n.Get(t.Context(), chunk.Request{ID: chunk.Sum(extras[i]), Size: int64(len(extras[i]))}); err != nil ||
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
	asks, sent := s.looseAsks.Load(), s.sent.Load()
	get(b, 1)
	if s.looseAsks.Load() != asks || s.sent.Load() != sent {
		t.Errorf(
			"%d questions and %d bytes of the server for what the giver has",
			s.looseAsks.Load()-asks,
			s.sent.Load()-sent,
		)
	}
	// What he does not have is asked for as ever.
	get(b, 2)
	if s.looseAsks.Load() != asks+1 {
		t.Errorf("%d questions", s.looseAsks.Load()-asks)
	}
}

// Nodes that would ask each other first, in a circle, and all want the same now, do not wait for each other: one of
// them asks the tracker, and the others need not.
func TestGiversInACircle(t *testing.T) {
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
	if took, wait := time.Since(began), patient(nodes[0]); took >= wait {
		t.Errorf("took %v, and who waits in a circle takes %v", took, wait)
	}
}

// A giver that is getting the object has those wait that wait for nobody who waits for them: whose address is
// higher, or, once the tracker said who sends it to him, all.
func TestGiverHasOthersWait(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	id := chunk.Sum(extra)
	s.objects[id.Name()] = extra
	low, giver, high := s.start(t, 1), s.start(t, 2), s.start(t, 3)
	acquainted(t, low, giver, high)
	read := giver.beginLoose(id) // it does not know yet from where
	waiting := func() int {
		giver.Node.mu.Lock()
		defer giver.Node.mu.Unlock()
		return giver.reads.awaited[id].others
	}
	asks := s.looseAsks.Load()
	got := make(chan error, 3)
	get := func(n *live) {
		gave(n, netip.AddrPortFrom(giver.o.Self, giver.o.Port))
		_, err := n.Get(t.Context(), chunk.Request{ID: id, Size: int64(len(extra))})
		got <- err
	}
	go get(high)
	waitFor(t, func() bool { return waiting() == 1 })
	get(low) // is refused, and asks the tracker
	if s.looseAsks.Load() != asks+1 {
		t.Errorf("%d questions to the tracker, want one", s.looseAsks.Load()-asks)
	}
	low.Node.mu.Lock()
	low.loose = looseObjects{most: low.loose.most}
	low.Node.mu.Unlock()
	giver.Node.mu.Lock()
	giver.reads.awaited[id].sure = true
	giver.Node.mu.Unlock()
	go get(low)
	waitFor(t, func() bool { return waiting() == 2 })
	v, err := chunk.Check(id, extra)
	if err != nil {
		t.Fatal(err)
	}
	giver.Node.mu.Lock()
	giver.Node.loose.put(id, v)
	giver.Node.mu.Unlock()
	giver.endLoose(id, read)
	for range 3 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if s.looseAsks.Load() != asks+1 {
		t.Errorf("%d questions to the tracker, want one", s.looseAsks.Load()-asks)
	}
}

// A giver that is gone is not waited for.
func TestGiverThatIsGone(t *testing.T) {
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

// Two are asked, the last one first.
func TestSecondGiver(t *testing.T) {
	s := newSite(t, 2, 1)
	extra := []byte("firefox")
	a, b, c := s.start(t, 1), s.start(t, 2), s.start(t, 3)
	acquainted(t, a, b, c)
	v, err := chunk.Check(chunk.Sum(extra), extra)
	if err != nil {
		t.Fatal(err)
	}
	b.Node.mu.Lock()
	b.Node.loose.put(v.ID(), v)
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
	if got := givers(a); s.looseAsks.Load() != 0 || !slices.Equal(got, []netip.AddrPort{at(b), at(c)}) {
		t.Errorf("%d questions to the tracker, givers %v", s.looseAsks.Load(), got)
	}
}

// A giver that sends something else is told of and not asked again, and the read has what it wants.
func TestGiverThatLies(t *testing.T) {
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
		t.Errorf("accused %v", a.bad)
	}
}
