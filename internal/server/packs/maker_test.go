package packs

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// site is a store with a maker of its packs. Its clock stands still.
type site struct {
	t        *testing.T
	dir      *store.Dir
	ring     *identity.Ring
	registry *registry.Registry
	maker    *Maker
	clock    *clock
}

type clock struct{ t time.Time }

func (c *clock) Now() time.Time      { return c.t }
func (c *clock) Add(d time.Duration) { c.t = c.t.Add(d) }

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	at := t.TempDir()
	dir, err := store.OpenDir(filepath.Join(at, "store"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.Open(filepath.Join(at, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Open(t.Context(), registry.Options{Dir: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close() })
	s := &site{t: t, dir: dir, ring: keys.Ring, registry: reg, clock: &clock{noon}}
	s.maker = New(Options{Store: dir, Registry: reg, Traces: NewTraces(at), Ring: keys.Ring, Manifest: dir.Manifest,
		LastSeen: func(n fleet.Node) time.Time { return n.Seen }, Now: s.clock.Now, Log: slog.New(slog.DiscardHandler)})
	return s
}

// addRoot stores a version with these files.
func (s *site) addRoot(files map[string][]byte) (image.Manifest, fleet.Digest) {
	s.t.Helper()
	m := image.Manifest{
		Format:       1,
		Architecture: "amd64",
		Kernel:       image.Kernel{Release: "6.1.0", Object: chunk.Sum(nil), Size: 1},
		Root:         testkit.StoreRoot(s.t, s.dir, files),
	}
	raw, err := m.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := s.dir.PutVersion(store.Version{Manifest: raw, Signature: image.SignAll(raw, s.ring.Signers())})
	if err != nil {
		s.t.Fatal(err)
	}
	return m, v
}

// readsOf returns the reads of a boot that opens these files.
func (s *site) readsOf(m image.Manifest, files ...string) []trace.Read {
	s.t.Helper()
	at, err := imagefs.ReadMap(s.t.Context(), s.dir, m)
	if err != nil {
		s.t.Fatal(err)
	}
	reads := []trace.Read{{Start: 0, Blocks: 1}}
	for i, name := range files {
		f, ok := at.Find(name)
		if !ok {
			s.t.Fatalf("%s is not in the root", name)
		}
		reads = append(reads, trace.Read{Start: f.Start, Blocks: f.Blocks, At: time.Duration(i) * time.Second})
	}
	return reads
}

// boot records that a machine booted a version now.
func (s *site) boot(number byte, v fleet.Digest) {
	s.t.Helper()
	err := s.registry.Update(s.t.Context(), func(tx *registry.Tx) error {
		return tx.CreateBoot(
			registry.Boot{ID: fleet.BootID(fmt.Sprintf("%016x", number)), MAC: fleet.MAC{2, 0, 0, 0, 0, number},
				Version: v, Started: s.clock.Now(), TokenUsed: s.clock.Now()},
		)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestWithin(t *testing.T) {
	reads := func(all ...uint32) []trace.Read {
		var out []trace.Read
		for i := 0; i < len(all); i += 2 {
			out = append(out, trace.Read{Start: all[i], Blocks: all[i+1]})
		}
		return out
	}
	for name, c := range map[string]struct{ in, want []trace.Read }{
		"beyond the end": {reads(0, 1, 99, 2, 98, 2), reads(0, 1, 98, 2)},
		"twice":          {reads(0, 100, 0, 100), reads(0, 100, 0, 100)},
	} {
		if got := within(c.in, 100); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := within(reads(7, 1, 0, maxTraced-1, 9, 1, 5, 1), 1<<40); !slices.Equal(got, reads(7, 1, 0, maxTraced-1)) {
		t.Errorf("more than is kept: %v", got)
	}
}

// Traces of versions that no node boots any more are removed, and so are files that are no traces.
func TestTracesAreBounded(t *testing.T) {
	tr := &Traces{dir: t.TempDir()}
	for i := range tracedVersions + 5 {
		v := image.Version(fmt.Append(nil, i))
		if err := tr.Put(v, Trace{Boot: "b", Reads: trace.EncodeReads(nil)}); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(int64(1e9+i), 0)
		if err := os.Chtimes(tr.of(v), when, when); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(tr.dir)
	if err != nil || len(left) != tracedVersions {
		t.Errorf("%d versions are left, %v", len(left), err)
	}
	last := image.Version(fmt.Append(nil, tracedVersions+4))
	if err := os.WriteFile(tr.file(last, "cut"), []byte(`{"boot":"c`), 0o644); err != nil {
		t.Fatal(err)
	}
	if kept, err := tr.List(last); err != nil || len(kept) != 1 {
		t.Errorf("the newest version has %v, %v", kept, err)
	}
	if kept, err := tr.List(image.Version([]byte("0"))); err != nil || kept != nil {
		t.Errorf("the oldest version has %v, %v", kept, err)
	}
}

// A pack that cannot be made is not tried at every boot, and is made when the cause is gone.
func TestPackIsTriedAgain(t *testing.T) {
	s := newSite(t)
	m, version := s.addRoot(map[string][]byte{"file": testkit.Program(1, 100_000)})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	for i := range byte(2) {
		if err := s.maker.traces.Put(version, Trace{Boot: fleet.BootID(fmt.Sprint(i)), Reads: reads}); err != nil {
			t.Fatal(err)
		}
	}
	index := s.dir.ObjectPath(m.Root.Index)
	if err := os.Rename(index, index+".away"); err != nil {
		t.Fatal(err)
	}
	p := s.maker
	made := func() int {
		t.Helper()
		p.try(t.Context(), version)
		records, err := s.dir.Packs(version)
		if err != nil {
			t.Fatal(err)
		}
		return len(records)
	}
	if n := made(); n != 0 || len(p.failed) != 1 {
		t.Errorf("%d packs of what has no index", n)
	}
	if err := os.Rename(index+".away", index); err != nil {
		t.Fatal(err)
	}
	if made() != 0 {
		t.Error("tried again at once")
	}
	s.clock.Add(retryAfter)
	if made() != 1 || len(p.failed) != 0 {
		t.Error("not tried again later")
	}
}

// A node that is gone does not keep a replaced pack for ever.
func TestReplacedPackOfASilentNode(t *testing.T) {
	s := newSite(t)
	_, version := s.addRoot(map[string][]byte{"file": testkit.Program(1, 100_000)})
	s.boot(1, version)
	for after, want := range map[time.Duration]bool{0: true, fleetview.SilentAfter - time.Hour: true,
		fleetview.SilentAfter + time.Hour: false} {
		if running, err := s.maker.running(t.Context(), s.clock.Now().Add(after)); err != nil ||
			running[version].IsZero() == want {
			t.Errorf("after %s it runs %v, %v; want %v", after, running, err, want)
		}
	}
}

// A recording that an operator requested and that arrives while a pack is being made leads to exactly one more pack.
func TestRecordingComesWhilePacking(t *testing.T) {
	s := newSite(t)
	m, version := s.addRoot(
		map[string][]byte{"usual": testkit.Program(1, 150_000), "browser": testkit.Program(2, 150_000)},
	)
	usual, long := s.readsOf(m, "usual"), s.readsOf(m, "usual", "browser")
	for i := range long[len(usual):] {
		long[len(usual)+i].At = time.Hour // after booted
	}
	keep := func(boot fleet.BootID, reads []trace.Read, reached bool) {
		t.Helper()
		k := Trace{
			Boot:    boot,
			Node:    "pc00" + string(boot),
			Moments: []moment{{trace.Booted, time.Minute}},
			Reads:   trace.EncodeReads(reads),
			Reached: reached,
		}
		if err := s.maker.traces.receive(version, k, s.clock.Now); err != nil {
			t.Fatal(err)
		}
		s.clock.Add(time.Minute)
	}
	for _, boot := range []fleet.BootID{"1", "2", "3"} {
		keep(boot, usual, false)
	}
	p := s.maker
	known := s.maker.traces.settled(s.clock.Now)
	traces, err := p.measured(t.Context(), version, m)
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Add(time.Minute)
	keep("4", long, true)
	if err := p.record(t.Context(), version, m, planPacks(traces, nil)[0], known); err != nil {
		t.Fatal(err)
	}
	s.clock.Add(time.Minute)
	if err := p.Version(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	has, err := p.has(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	if fit := packer.FitOf(has[""].order, long); has[""].Sequence != 2 || fit.Misses != 0 {
		t.Errorf("pack %d misses %d blocks of the recording", has[""].Sequence, fit.Misses)
	}
	if err := p.Version(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if records, err := s.dir.Packs(version); err != nil || len(records) != 1 || records[0].Sequence != 2 {
		t.Errorf("it is made again and again: %+v, %v", records, err)
	}
}

// A damaged file of requests, such as after a power cut, does not keep a server from starting: it is set aside, and new
// requests are saved.
func TestDamagedRecordingsAreSetAside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, recordingsFile)
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
		r, err := OpenRecordings(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || len(r.all()) != 0 {
			t.Fatalf("%s: it records %+v, %v", name, r, err)
		}
		if kept, err := os.ReadFile(file + damagedSuffix); err != nil || string(kept) != text {
			t.Errorf("%s: set aside is %q, %v", name, kept, err)
		}
		if !strings.Contains(log.String(), file) || !strings.Contains(log.String(), "pando boot record") {
			t.Errorf("%s: the log says\n%s", name, &log)
		}
		if err := r.Set("pc003", Wish{Until: "ready"}); err != nil {
			t.Fatal(err)
		}
		if r, err = OpenRecordings(dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
			r.Until("pc003") != "ready" {
			t.Errorf("%s: a wish after that is %+v, %v", name, r, err)
		}
	}
}
