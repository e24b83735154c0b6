package peer

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"pando/internal/chunk"
	"pando/internal/store"
)

// The first objects that a node reads come from its bootstrap peers, or from the server if they lack them.
func TestHelpers(t *testing.T) {
	s := newSite(t, 4, 0)
	first := s.start(t, 1)
	first.wait(t)
	v, err := chunk.Check(chunk.Sum([]byte("the index")), []byte("the index"))
	if err != nil {
		t.Fatal(err)
	}
	first.Node.mu.Lock()
	first.Node.demand.put(v.ID(), v)
	first.Node.mu.Unlock()
	other := []byte("other")
	s.objects[chunk.Sum(other).Name()] = other
	gone := netip.MustParseAddrPort("127.0.0.1:1")
	second := s.start(t, 2, func(o *NodeOptions) {
		o.Trackers = nil // it knows no other peer
		o.BootstrapPeers = []netip.AddrPort{gone, netip.AddrPortFrom(first.o.Self, first.o.Port)}
		o.Slow = &store.TimeoutFloor{}
	})
	second.wait(t)
	sent, given := s.sent.Load(), second.bytes("peer")
	if got, err := second.Get(t.Context(), chunk.Request{ID: v.ID(), Size: 9}); err != nil ||
		string(got.Stored()) != "the index" ||
		second.bytes("peer") != given+9 {
		t.Errorf("got %q, %v, %d bytes of peers", got.Stored(), err, second.bytes("peer")-given)
	}
	if got, err := second.Get(t.Context(), chunk.Request{ID: chunk.Sum(other), Size: 5}); err != nil ||
		string(got.Stored()) != "other" ||
		s.sent.Load() != sent+5 {
		t.Errorf("got %q, %v, %d bytes of the server", got.Stored(), err, s.sent.Load()-sent)
	}
	second.Node.mu.Lock()
	defer second.Node.mu.Unlock()
	if left, _ := second.reads.Begin(v.ID(), false).Next(0); len(left) != 1 || left[0].Peer == gone {
		t.Errorf("helpers that are left: %v, want the one that answers", left)
	}
}

// A bootstrap peer that does not answer costs one wait. One that sends wrong bytes is reported. Neither is asked again.
func TestHelpersThatDoNotHelp(t *testing.T) {
	s := newSite(t, 4, 0)
	var asked atomic.Int32
	end := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-end }))
	wrong := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); io.WriteString(w, "a lie") }),
	)
	t.Cleanup(func() { close(end); silent.Close(); wrong.Close() })
	watch := &corruptCounter{}
	n := s.start(t, 1, func(o *NodeOptions) {
		for _, h := range []*httptest.Server{silent, wrong} {
			o.BootstrapPeers = append(o.BootstrapPeers, netip.MustParseAddrPort(h.Listener.Addr().String()))
		}
		o.Slow, o.Observer, o.Trackers = &store.TimeoutFloor{}, watch, nil
	})
	for _, text := range []string{"truth", "facts", "exact"} {
		s.objects[chunk.Sum([]byte(text)).Name()] = []byte(text)
		if v, err := n.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte(text)), Size: 5}); err != nil ||
			string(v.Stored()) != text {
			t.Fatalf("%q, %v", v.Stored(), err)
		}
	}
	if asked.Load() != 2 || watch.n.Load() != 1 {
		t.Errorf("helpers were asked %d times, want once each; %d reports", asked.Load(), watch.n.Load())
	}
}

// corruptCounter counts the reports of wrong bytes.
type corruptCounter struct {
	nobody
	n atomic.Int32
}

func (a *corruptCounter) Corrupt(netip.AddrPort, chunk.ID) { a.n.Add(1) }
