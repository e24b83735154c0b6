package server

import (
	"fmt"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/server/packs"
	"pando/internal/trace"
)

// An operator records one boot until a mark. The version's pack gets what was read until then, and keeps it, though
// other boots were recorded for a shorter time.
func TestRecordUntilAMark(t *testing.T) {
	s := startSite(t)
	files := map[string][]byte{}
	for i := range 4 {
		files[fmt.Sprint("usr/bin/p", i)] = program(uint64(i), 150_000)
	}
	m, version := s.addRoot(files)
	usual, long := s.readsOf(
		m,
		"usr/bin/p0",
		"usr/bin/p1",
	), s.readsOf(
		m,
		"usr/bin/p0",
		"usr/bin/p1",
		"usr/bin/p2",
		"usr/bin/p3",
	)
	for i := range long {
		if i >= len(usual) {
			long[i].At = time.Hour // after booted
		}
	}
	node := byte(0)
	boot := func(n int, req api.TraceRequest) (a fleet.Assignment) {
		t.Helper()
		for range n {
			node++
			var send func(api.TraceRequest) *api.Error
			a, send = s.boot(node, "")
			if e := send(req); e != nil {
				t.Fatal(e)
			}
			s.clock.add(time.Minute)
		}
		return a
	}
	short := api.TraceRequest{Reads: trace.EncodeReads(usual)}
	boot(3, short)
	first := s.packed(version, "", func(r bootpack.Record) bool { return r.Boots >= 2 })

	name := boot(1, short).Node
	node-- // the same machine boots again
	if err := s.recordings.Set(name, packs.Wish{Until: "firefox-ready", Asked: s.now()}); err != nil {
		t.Fatal(err)
	}
	s.restart() // the request is kept
	a := boot(1, api.TraceRequest{Reads: trace.EncodeReads(long), Until: "firefox-ready", Reached: true})
	if a.Node != name || a.RecordUntil != "firefox-ready" {
		t.Fatalf("the boot of %s records until %q", a.Node, a.RecordUntil)
	}
	if left := s.recordings.Until(name); left != "" {
		t.Errorf("%s is still asked to record until %q", name, left)
	}
	s.packed(version, "", func(r bootpack.Record) bool { return r.Raw > first.Raw })
	boot(6, short) // shorter recordings do not replace it
	last, _ := s.boot(200, "")
	p := s.verified(last)
	if fit := packer.FitOf(packer.OrderOf(p), long); fit.Misses != 0 {
		t.Errorf("the pack misses %d blocks of what was recorded until the mark", fit.Misses)
	}
	if p.Booted == len(p.Pieces) {
		t.Error("what was read after booted comes before it")
	}
	kept, err := s.traces.List(version)
	if err != nil || len(kept) != packs.TracesPerClass || len(packs.AskedFor(kept)) != 1 {
		t.Errorf("%d traces are kept, asked for %v, %v", len(kept), packs.AskedFor(kept), err)
	}
}
