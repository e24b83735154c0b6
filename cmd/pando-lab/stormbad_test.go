package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pando/internal/testkit"
)

// Who gives up a slow answer, because it has the piece from elsewhere, was not wronged.
func TestBadPeerNotesWhoWaited(t *testing.T) {
	b := &badPeer{as: "slow", rate: testkit.Mbit}
	begun := make(chan struct{})
	srv := httptest.NewServer(b.spoil(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		_, _ = w.Write(make([]byte, 1<<20))
	})))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/o/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-begun; cancel() }()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close() // nobody reads it
	}
	srv.Close()
	if len(b.note.Answers) > 0 {
		t.Errorf("it notes %+v", b.note.Answers)
	}
}

// What bad peers note the lab reads: of each node how many answers were spoiled in time to be told of, and how long
// it waited when it knew what is usual.
func TestWhomBadPeersMet(t *testing.T) {
	addr := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	began := time.Unix(1_800_000_000, 0).UTC()
	r, nodes := stormRun{Began: began, Last: 20, Each: make([]nodeRun, 3)}, []*node{}
	for i := range r.Each {
		nodes = append(nodes, &node{index: i, net: &testkit.Net{Addr: netip.PrefixFrom(addr(byte(i+1)), 24)}})
	}
	files := []string{filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "b.json")}
	early, late := &badNote{}, &badNote{}
	for i := range tellFrom + 2 {
		n := []*badNote{early, late}[i%2]
		n.Answers = append(
			n.Answers,
			badAnswer{addr(1), began.Add(time.Duration(i) * time.Second), time.Duration(20-i) * time.Second},
		)
	}
	late.Answers = append(
		late.Answers,
		badAnswer{addr(2), began.Add(18 * time.Second), time.Second},
		badAnswer{addr(9), began, time.Second},
	)
	for i, n := range []*badNote{early, late} {
		if err := n.save(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := (&badCrowd{notes: files}).ended()
	if err != nil {
		t.Fatal(err)
	}
	r.spoiled(nodes, answers)
	if want := []nodeRun{{Spoiled: tellFrom + 2, Waited: 12}, {}, {}}; !slices.EqualFunc(
		r.Each,
		want,
		func(a, b nodeRun) bool { return a.Spoiled == b.Spoiled && a.Waited == b.Waited },
	) {
		t.Errorf("got %+v", r.Each)
	}
	if _, err := (&badCrowd{notes: []string{filepath.Join(t.TempDir(), "none")}}).ended(); err == nil {
		t.Error("a bad peer that left no note is taken for one that did nothing")
	}
}
