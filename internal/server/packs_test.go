package server

import (
	"fmt"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/server/packs"
	"pando/internal/trace"
)

func TestTracesBecomeAPack(t *testing.T) {
	s := startSite(t)
	files := map[string][]byte{}
	for i := range 6 {
		files[fmt.Sprint("usr/bin/p", i)] = program(uint64(i), 150_000)
	}
	m, version := s.addRoot(files)
	reads := s.readsOf(m, "usr/bin/p3", "usr/bin/p1", "usr/bin/p5", "usr/bin/p0")

	first, send := s.boot(1, "")
	if first.Pack != nil {
		t.Errorf("the first boot has pack %+v", first.Pack)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(reads), Partial: true}); e != nil {
		t.Fatal(e)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(reads)}); e != nil {
		t.Fatal(e)
	}
	s.restart() // the sent trace is kept
	second, send := s.boot(2, "")
	if second.Pack != nil {
		t.Errorf("the second boot has pack %+v, made of one boot", second.Pack)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(reads)}); e != nil {
		t.Fatal(e)
	}
	s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })

	third, _ := s.boot(3, "")
	p := s.verified(third)
	if fit := packer.FitOf(packer.OrderOf(p), reads); fit.Misses != 0 || fit.Wasted != 0 || p.Sequence != 1 {
		t.Errorf("pack %d of the boots: %+v", p.Sequence, fit)
	}
	at, err := imagefs.ReadMap(t.Context(), s.store, m)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "usr/bin/p3", "usr/bin/p1", "usr/bin/p5", "usr/bin/p0"} {
		if f, _ := at.At(p.Extents[i].Start); f.Path != want {
			t.Errorf("extent %d is of %q, want %q", i, f.Path, want)
		}
	}
	if p.Booted == 0 || p.Booted == len(p.Pieces) {
		t.Errorf("%d of %d pieces until booted; the last file was read after it", p.Booted, len(p.Pieces))
	}
	report, err := s.store.Check(t.Context(), []string{s.keys.SitePublic()}, nil)
	for _, problem := range report.Problems {
		t.Error(problem)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestNextVersionStartsWithAPack(t *testing.T) {
	s := startSite(t)
	files := map[string][]byte{"etc/conf": program(90, 30_000)}
	for i := range 6 {
		files[fmt.Sprint("usr/bin/p", i)] = program(uint64(i), 150_000)
	}
	m, old := s.addRoot(files)
	reads := trace.EncodeReads(s.readsOf(m, "usr/bin/p3", "usr/bin/p1"))
	for i := range byte(2) {
		if _, send := s.boot(i+1, ""); send(api.TraceRequest{Reads: reads}) != nil {
			t.Fatal("the trace was refused")
		}
	}
	s.packed(old, "", func(bootpack.Record) bool { return true })

	s.clock.add(time.Hour)
	files["a/first"] = program(99, 500_000)
	m, version := s.addRoot(files)
	s.packs.Look(version) // as the API does when a version is added
	r := s.packed(version, "", func(bootpack.Record) bool { return true })
	if r.From != old || r.Boots != 0 || r.Sequence != 1 {
		t.Errorf("record %+v", r)
	}
	a, send := s.boot(3, "")
	p := s.verified(a)
	now := s.readsOf(m, "usr/bin/p3", "usr/bin/p1", "etc/conf")
	if fit := packer.FitOf(packer.OrderOf(p), now[:3]); fit.Misses != 0 || a.Version != version {
		t.Errorf("the first boot of the new version: %+v", fit)
	}

	if e := send(api.TraceRequest{Reads: trace.EncodeReads(now), Pack: a.Pack.Object, Hits: 1}); e != nil {
		t.Fatal(e)
	}
	if _, send := s.boot(4, ""); send(api.TraceRequest{Reads: trace.EncodeReads(now)}) != nil {
		t.Fatal("the trace was refused")
	}
	r = s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
	b, _ := s.boot(5, "")
	if fit := packer.FitOf(packer.OrderOf(s.verified(b)), now); fit.Misses != 0 || fit.Wasted != 0 || r.Sequence != 2 ||
		r.From != "" {
		t.Errorf("recorded: %+v, %+v", r, fit)
	}
	s.verified(a) // a boot in progress still has the pack that it began with
}

// Hardware that reads other data gets a pack of its own; when what it reads changes, it gets a new one.
func TestPackFollowsTheHardware(t *testing.T) {
	s := startSite(t)
	files := map[string][]byte{}
	for i := range 8 {
		files[fmt.Sprint("usr/bin/p", i)] = program(uint64(i), 150_000)
	}
	m, version := s.addRoot(files)
	node := byte(0)
	boots := func(product string, files ...string) {
		t.Helper()
		for range 2 {
			node++
			_, send := s.boot(node, product)
			if e := send(api.TraceRequest{Reads: trace.EncodeReads(s.readsOf(m, files...))}); e != nil {
				t.Fatal(e)
			}
			s.clock.add(time.Minute)
		}
	}
	boots("Desk 1", "usr/bin/p0", "usr/bin/p1")
	s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
	boots("Lap (2)", "usr/bin/p0", "usr/bin/p2", "usr/bin/p3")
	s.packed(version, "qemu-lap-2", func(r bootpack.Record) bool { return r.Boots == 2 })
	lap, _ := s.boot(200, "Lap (2)")
	other, _ := s.boot(201, "something else")
	if p, q := s.verified(lap), s.verified(other); p.Class != "qemu-lap-2" || q.Class != "" {
		t.Errorf("classes %q and %q", p.Class, q.Class)
	}
	if fit := packer.FitOf(packer.OrderOf(s.verified(lap)),
		s.readsOf(m, "usr/bin/p0", "usr/bin/p2", "usr/bin/p3")); fit.Misses != 0 ||
		fit.Wasted != 0 {
		t.Errorf("the pack of a class: %+v", fit)
	}

	s.clock.add(time.Hour)
	files["a/first"] = program(99, 500_000)
	m, next := s.addRoot(files)
	s.packs.Look(next)
	r := s.packed(next, "qemu-lap-2", func(bootpack.Record) bool { return true })
	lap, _ = s.boot(202, "Lap (2)")
	fit := packer.FitOf(packer.OrderOf(s.verified(lap)), s.readsOf(m, "usr/bin/p0", "usr/bin/p2", "usr/bin/p3"))
	if r.From != version || lap.Version != next || fit.Misses != 0 || fit.Wasted != 0 {
		t.Errorf("the next version starts with %+v for the class: %+v", r, fit)
	}
}

func TestPackOfAnotherKeyIsNotMadeHere(t *testing.T) {
	s := startSite(t)
	m, _ := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	m, version := s.addImage(func(n *image.Manifest) {
		n.Root, n.PackKey = m.Root, "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	for i := range byte(2) {
		if err := s.traces.Put(version, packs.Trace{Boot: fleet.BootID(fmt.Sprint(i)), Reads: reads}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.packs.Version(t.Context(), version); err != nil {
		t.Error(err)
	}
	if records, err := s.store.Packs(version); err != nil || records != nil {
		t.Errorf("records %v, %v", records, err)
	}
}

func TestTraceIsRefused(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	_, send := s.boot(1, "")
	blocks := uint32(m.Root.Size / chunk.BlockSize)
	reads := trace.EncodeReads([]trace.Read{{Start: 0, Blocks: 1}})
	for name, c := range map[string]struct {
		req  api.TraceRequest
		want api.Code
	}{
		"other boot":    {api.TraceRequest{Boot: "0123456789abcdef", Reads: reads}, api.Unauthorized},
		"other version": {api.TraceRequest{Version: image.Version(nil), Reads: reads}, api.BadRequest},
		"junk":          {api.TraceRequest{Reads: []byte("PNDR and more")}, api.BadRequest},
		"nothing":       {api.TraceRequest{}, api.BadRequest},
		"negative":      {api.TraceRequest{Reads: reads, Wasted: -1}, api.BadRequest},
	} {
		if e := send(c.req); e == nil || e.Code != c.want {
			t.Errorf("%s: error %v, want %s", name, e, c.want)
		}
	}
	if kept, err := s.traces.List(version); err != nil || len(kept) != 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
	if e := s.node(7).post("/v1/node/trace", "", api.TraceRequest{Reads: reads}, nil); e == nil ||
		e.Code != api.Unauthorized {
		t.Errorf("without a session: error %v", e)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads([]trace.Read{{Start: 1, Blocks: 1},
		{Start: blocks, Blocks: 1}})}); e != nil {
		t.Fatal(e)
	}
	kept, err := s.traces.List(version)
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if r, err := kept[0].Recording(); err != nil || len(r.Reads) != 1 || r.Booted != 2500*time.Millisecond ||
		kept[0].Class != "qemu" ||
		kept[0].Node == "" {
		t.Errorf("kept %+v, %+v, %v", kept[0], r, err)
	}
}

// A trace that was recorded before a restart becomes a pack after it.
func TestPackAfterARestart(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	s.stop()
	for i := range byte(2) {
		if err := s.traces.Put(version, packs.Trace{Boot: fleet.BootID(fmt.Sprint(i)), Reads: reads}); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
}

// Boots do not wait for a pack that cannot be written because another process holds the store.
func TestBootsDoNotWaitForPacks(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	unlock, err := s.store.Lock(t.Context(), "a long build")
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(3) {
		a, send := s.boot(i+1, "")
		if e := send(api.TraceRequest{Reads: reads}); e != nil || a.Pack != nil {
			t.Fatalf("boot %d: %v, pack %+v", i, e, a.Pack)
		}
	}
	unlock()
	s.packed(version, "", func(bootpack.Record) bool { return true })
}

// When boots read other data than the pack has, the pack is made again. A boot that began with the old pack still finds
// it.
func TestPackIsRecordedAgain(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(
		map[string][]byte{"then": program(1, 200_000), "always": program(2, 100_000), "now": program(3, 200_000)},
	)
	node := byte(0)
	boots := func(n int, files ...string) (a fleet.Assignment) {
		t.Helper()
		for range n {
			node++
			var send func(api.TraceRequest) *api.Error
			a, send = s.boot(node, "")
			if e := send(api.TraceRequest{Reads: trace.EncodeReads(s.readsOf(m, files...))}); e != nil {
				t.Fatal(e)
			}
			s.clock.add(time.Minute)
		}
		return a
	}
	boots(2, "then", "always")
	s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
	first := boots(1, "always", "now")
	boots(2, "always", "now")
	second := s.packed(version, "", func(r bootpack.Record) bool { return r.Sequence > 1 })
	last, _ := s.boot(200, "")
	if p := s.verified(last); p.Sequence != second.Sequence {
		t.Errorf("sequence %d, want %d", p.Sequence, second.Sequence)
	}
	if fit := packer.FitOf(packer.OrderOf(s.verified(last)), s.readsOf(m, "always", "now")); fit.Misses != 0 {
		t.Errorf("the pack of today: %+v", fit)
	}
	if p := s.verified(first); p.Sequence != 1 {
		t.Errorf("the boot under way has pack %d", p.Sequence)
	}
}
