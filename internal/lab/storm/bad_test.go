package storm

import (
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
)

// The lab reads the notes of bad peers: how many answers were spoiled early enough to be reported, and how long the
// node waited after it knew the usual duration.
func TestWhomBadPeersMet(t *testing.T) {
	addr := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	began := time.Unix(1_800_000_000, 0).UTC()
	r, nodes := stormRun{Began: began, Last: 20, Each: make([]nodeRun, 3)}, []*node{}
	for i := range r.Each {
		at := &testkit.Net{Addr: netip.PrefixFrom(addr(byte(i+1)), 24)}
		nodes = append(nodes, &node{Node: testbed.Node{Net: at}, index: i})
	}
	files := []string{filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "b.json")}
	early, late := &bench.BadNote{}, &bench.BadNote{}
	for i := range tellFrom + 2 {
		n := []*bench.BadNote{early, late}[i%2]
		n.Answers = append(
			n.Answers,
			bench.BadAnswer{
				To:    addr(1),
				Ended: began.Add(time.Duration(i) * time.Second),
				Took:  time.Duration(20-i) * time.Second,
			},
		)
	}
	late.Answers = append(
		late.Answers,
		bench.BadAnswer{To: addr(2), Ended: began.Add(18 * time.Second), Took: time.Second},
		bench.BadAnswer{To: addr(9), Ended: began, Took: time.Second},
	)
	for i, n := range []*bench.BadNote{early, late} {
		if err := n.Save(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := (&badGroup{notes: files}).ended()
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
	if _, err := (&badGroup{notes: []string{filepath.Join(t.TempDir(), "none")}}).ended(); err == nil {
		t.Error("a bad peer that left no note is taken for one that did nothing")
	}
}
