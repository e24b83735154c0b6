package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/trace"
)

// An operator has one boot recorded until a mark. The pack of its version gets what it read on the way there, and
// keeps it, though boots before and after were not recorded as long.
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
	if err := s.recordings.set(name, recordingWish{Until: "firefox-ready", Asked: s.now()}); err != nil {
		t.Fatal(err)
	}
	s.restart() // what was asked is kept
	a := boot(1, api.TraceRequest{Reads: trace.EncodeReads(long), Until: "firefox-ready", Reached: true})
	if a.Node != name || a.RecordUntil != "firefox-ready" {
		t.Fatalf("the boot of %s records until %q", a.Node, a.RecordUntil)
	}
	if left := s.recordings.until(name); left != "" {
		t.Errorf("%s is still asked to record until %q", name, left)
	}
	s.packed(version, "", func(r bootpack.Record) bool { return r.Raw > first.Raw })
	boot(6, short) // boots that were not recorded as long do not push it out
	last, _ := s.boot(200, "")
	p := s.verified(last)
	if fit := packer.FitOf(packer.OrderOf(p), long); fit.Misses != 0 {
		t.Errorf("the pack misses %d blocks of what was recorded until the mark", fit.Misses)
	}
	if p.Booted == len(p.Pieces) {
		t.Error("what was read after booted comes before it")
	}
	kept, err := s.traces.list(version)
	if err != nil || len(kept) != tracesPerClass || len(askedFor(kept)) != 1 {
		t.Errorf("%d traces are kept, asked for %v, %v", len(kept), askedFor(kept), err)
	}
}

// What a power cut left of the wishes, nothing or a part, keeps no server from starting: the file is set aside, and
// wishes are kept again.
func TestDamagedRecordingsAreSetAside(t *testing.T) {
	s := startSite(t)
	s.stop()
	file := filepath.Join(s.cfg.Dir, recordingsFile)
	damage := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"empty": "", "a part": `{"pc001":{"until":"fire`, "of another " +
		"kind": `{"pc001":{"until":"x"},"pc002":7}`} {
		damage(text)
		var log bytes.Buffer
		r, err := openRecordings(s.cfg.Dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || len(r.all()) != 0 {
			t.Fatalf("%s: it records %+v, %v", name, r, err)
		}
		if kept, err := os.ReadFile(file + damagedSuffix); err != nil || string(kept) != text {
			t.Errorf("%s: set aside is %q, %v", name, kept, err)
		}
		if !strings.Contains(log.String(), file) || !strings.Contains(log.String(), "pando boot record") {
			t.Errorf("%s: the log says\n%s", name, &log)
		}
		if err := r.set("pc003", recordingWish{Until: "ready"}); err != nil {
			t.Fatal(err)
		}
		if r, err = openRecordings(s.cfg.Dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
			r.until("pc003") != "ready" {
			t.Errorf("%s: a wish after that is %+v, %v", name, r, err)
		}
	}
	damage("")
	s.start()
}

// A pack takes minutes to make. What an operator had recorded meanwhile is not in it, so it is made once more, and
// then no more.
func TestRecordingComesWhilePacking(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{"usual": program(1, 150_000), "browser": program(2, 150_000)})
	usual, long := s.readsOf(m, "usual"), s.readsOf(m, "usual", "browser")
	for i := range long[len(usual):] {
		long[len(usual)+i].At = time.Hour // after booted
	}
	keep := func(boot fleet.BootID, reads []trace.Read, reached bool) {
		t.Helper()
		k := keptTrace{
			Boot:    boot,
			Node:    "pc00" + string(boot),
			Moments: []moment{{trace.Booted, time.Minute}},
			Reads:   trace.EncodeReads(reads),
			Reached: reached,
		}
		if err := s.traces.receive(version, k, s.now); err != nil {
			t.Fatal(err)
		}
		s.clock.add(time.Minute)
	}
	for _, boot := range []fleet.BootID{"1", "2", "3"} {
		keep(boot, usual, false)
	}
	p := &packs{
		store:    s.store,
		versions: s.versions,
		registry: s.registry,
		traces:   s.traces,
		ring:     s.keys.Ring,
		now:      s.now,
		log:      slog.New(slog.DiscardHandler),
		dirty:    map[fleet.Digest]bool{},
		wake:     make(chan struct{}, 1),
	}
	known := s.traces.settled(s.now)
	traces, err := p.measured(t.Context(), version, m)
	if err != nil {
		t.Fatal(err)
	}
	s.clock.add(time.Minute)
	keep("4", long, true)
	if err := p.record(t.Context(), version, m, planPacks(traces, nil)[0], known); err != nil {
		t.Fatal(err)
	}
	s.clock.add(time.Minute)
	if err := p.version(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	has, err := p.has(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	if fit := packer.FitOf(has[""].order, long); has[""].Sequence != 2 || fit.Misses != 0 {
		t.Errorf("pack %d misses %d blocks of the recording", has[""].Sequence, fit.Misses)
	}
	if err := p.version(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if records, err := s.store.Packs(version); err != nil || len(records) != 1 || records[0].Sequence != 2 {
		t.Errorf("it is made again and again: %+v, %v", records, err)
	}
}
