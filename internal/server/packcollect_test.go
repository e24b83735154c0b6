package server

import (
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/server/packs"
	"pando/internal/trace"
)

// A replaced pack stays for boots in progress, and as long as a node runs with it. Then it is removed, except for the
// pieces that the new pack shares.
func TestReplacedPackIsCollected(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(
		map[string][]byte{"then": program(1, 200_000), "always": program(2, 400_000), "now": program(3, 200_000)},
	)
	boots := func(nodes []byte, files ...string) (a fleet.Assignment) {
		t.Helper()
		for _, n := range nodes {
			var send func(api.TraceRequest) *api.Error
			a, send = s.boot(n, "")
			if e := send(api.TraceRequest{Reads: trace.EncodeReads(s.readsOf(m, files...))}); e != nil {
				t.Fatal(e)
			}
			s.clock.add(time.Minute)
		}
		return a
	}
	boots([]byte{1, 2}, "then", "always")
	s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
	first := boots([]byte{3}, "always", "now")
	boots([]byte{4, 5}, "always", "now")
	s.packed(version, "", func(r bootpack.Record) bool { return r.Sequence == 2 })
	old := s.verified(first)
	collected := func(want bool) {
		t.Helper()
		if err := s.packs.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		missing := 0
		for _, e := range old.Pieces {
			if _, ok := s.store.Stat(e.ID); !ok {
				missing++
			}
		}
		status, _ := s.node(99).get("/o/" + strings.TrimPrefix(first.Pack.Object, "sha256:"))
		if gone := status == 404; gone != want || missing > 0 != want || missing == len(old.Pieces) {
			t.Errorf("map: status %d, %d of %d pieces are gone, want gone %v", status, missing, len(old.Pieces), want)
		}
		report, err := s.store.Check(t.Context(), []string{s.keys.SitePublic()}, nil)
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("the store: %v, %v", report.Problems, err)
		}
	}
	collected(false) // the node may still boot
	s.clock.add(packs.ReplacedKept + time.Hour)
	for _, n := range []byte{1, 2, 4, 5} {
		s.boot(n, "")
	}
	collected(false) // node 3 runs with it
	last, _ := s.boot(3, "")
	s.restart() // the store knows which packs were replaced
	collected(true)
	if p := s.verified(last); p.Sequence != 2 {
		t.Errorf("the pack of today has number %d", p.Sequence)
	}
}
