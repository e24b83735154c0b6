package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// program is a file's content that compresses as programs do.
func program(seed uint64, size int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString([]string{"push", "call", "ret\n", "mov\t", "%rax,", "\x00\x00"}[rng.IntN(6)])
	}
	return b.Bytes()[:size]
}

// addRoot adds a version whose root is a real file system with these files.
func (s *site) addRoot(files map[string][]byte) (image.Manifest, fleet.Digest) {
	s.t.Helper()
	if _, err := exec.LookPath("mkfs.erofs"); err != nil {
		s.t.Skip("mkfs.erofs is not installed (Debian package erofs-utils)")
	}
	tree, raw := s.t.TempDir(), filepath.Join(s.t.TempDir(), "root.erofs")
	for name, data := range files {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfs.erofs", "-Enoinline_data", raw, tree).CombinedOutput(); err != nil {
		s.t.Fatalf("mkfs.erofs: %v\n%s", err, out)
	}
	root, err := os.ReadFile(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	index := s.storeRoot(root)
	return s.addImage(func(m *image.Manifest) {
		m.Root.Index, m.Root.Size, m.Root.ChunkSize = index, int64(len(root)), chunk.DefaultChunkSize
	})
}

// storeRoot cuts a file system into chunks and returns the index.
func (s *site) storeRoot(root []byte) chunk.ID {
	s.t.Helper()
	ctx := s.t.Context()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		s.t.Fatal(err)
	}
	unlock, err := s.store.Lock(ctx, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	w := s.store.NewWriter()
	defer w.Close()
	var entries []chunk.Entry
	var id chunk.ID
	put := func(stored []byte) {
		if id, _, err = w.Put(ctx, stored); err != nil {
			s.t.Fatal(err)
		}
	}
	for rest := root; len(rest) > 0; rest = rest[min(len(rest), chunk.DefaultChunkSize):] {
		raw := rest[:min(len(rest), chunk.DefaultChunkSize)]
		e := chunk.Entry{RawSize: len(raw)}
		stored, codec := enc.Encode(raw)
		if e.Codec = codec; codec != chunk.Zero {
			put(stored)
			e.ID, e.StoredSize = id, len(stored)
		}
		entries = append(entries, e)
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, page := range append(index.Pages, index.Root) {
		put(page)
	}
	if err := w.Sync(ctx); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// readsOf are the reads of a boot that opens these files.
func (s *site) readsOf(m image.Manifest, files ...string) []trace.Read {
	s.t.Helper()
	at, err := build.MapRoot(s.t.Context(), s.store, m)
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

// boot boots a machine of its own up to its report, and returns its assignment and how to go on.
func (s *site) boot(number byte, product string) (fleet.Assignment, func(api.TraceRequest) *api.Error) {
	s.t.Helper()
	n := s.nodeAt(number, netip.AddrFrom4([4]byte{127, 0, 0, number}))
	cfg := n.load()
	hello := helloOf(cfg)
	hello.Hardware.Product = product
	var resp api.HelloResponse
	if e := n.post("/v1/node/hello", "", hello, &resp); e != nil {
		s.t.Fatal(e, e.Hint)
	}
	var a fleet.Assignment
	if err := json.Unmarshal(resp.Assignment, &a); err != nil {
		s.t.Fatal(err)
	}
	report := api.ReportRequest{Boot: cfg.Boot, Uptime: 40 * time.Second, Events: []trace.Event{
		{Stage: trace.Device, Kind: trace.End, Offset: 5 * time.Second}, {Stage: trace.Booted, Kind: trace.End, Offset: 7500 * time.Millisecond},
	}}
	if e := n.post("/v1/node/events", "Bearer "+resp.Session, report, nil); e != nil {
		s.t.Fatal(e, e.Hint)
	}
	return a, func(req api.TraceRequest) *api.Error {
		if req.Boot == "" {
			req.Boot = cfg.Boot
		}
		if req.Version == "" {
			req.Version = a.Version
		}
		return n.post("/v1/node/trace", "Bearer "+resp.Session, req, nil)
	}
}

// packed waits until a version has a boot pack that good says yes to.
func (s *site) packed(v fleet.Digest, class string, good func(image.PackRecord) bool) image.PackRecord {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		records, err := s.store.Packs(v)
		if err != nil {
			s.t.Fatal(err)
		}
		if r, ok := image.FindPack(records, class); ok && r.Class == class && good(r) {
			return r
		}
		select {
		case <-s.rested:
		case <-ctx.Done():
			s.t.Fatalf("no such boot pack of %s: %+v", v.Short(), records)
		}
	}
}

// verified is the map that an assignment names, fetched and checked as a node does it.
func (s *site) verified(a fleet.Assignment) image.Pack {
	s.t.Helper()
	if a.Pack == nil {
		s.t.Fatal("the assignment has no boot pack")
	}
	status, data := s.node(99).get("/o/" + strings.TrimPrefix(a.Pack.Object, "sha256:"))
	if status != 200 || int64(len(data)) != a.Pack.Size {
		s.t.Fatalf("boot pack: status %d, %d bytes, want %d", status, len(data), a.Pack.Size)
	}
	p, err := image.VerifyPack(data, []byte(a.Pack.Signature), a.Version, s.keys.SitePublic())
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

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
	s.restart() // what was sent is kept
	second, send := s.boot(2, "")
	if second.Pack != nil {
		t.Errorf("the second boot has pack %+v, made of one boot", second.Pack)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(reads)}); e != nil {
		t.Fatal(e)
	}
	s.packed(version, "", func(r image.PackRecord) bool { return r.Boots == 2 })

	third, _ := s.boot(3, "")
	p := s.verified(third)
	if fit := build.FitOf(p.Extents, reads); fit.Misses != 0 || fit.Wasted != 0 || p.Sequence != 1 {
		t.Errorf("pack %d of the boots: %+v", p.Sequence, fit)
	}
	at, err := build.MapRoot(t.Context(), s.store, m)
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
	s.packed(old, "", func(image.PackRecord) bool { return true })

	s.clock.add(time.Hour)
	files["a/first"] = program(99, 500_000)
	m, version := s.addRoot(files)
	s.packs.look(version) // as the API does when a version is added
	r := s.packed(version, "", func(image.PackRecord) bool { return true })
	if r.From != old || r.Boots != 0 || r.Sequence != 1 {
		t.Errorf("record %+v", r)
	}
	a, send := s.boot(3, "")
	p := s.verified(a)
	now := s.readsOf(m, "usr/bin/p3", "usr/bin/p1", "etc/conf")
	if fit := build.FitOf(p.Extents, now[:3]); fit.Misses != 0 || a.Version != version {
		t.Errorf("the first boot of the new version: %+v", fit)
	}

	if e := send(api.TraceRequest{Reads: trace.EncodeReads(now), Pack: a.Pack.Object, Hits: 1}); e != nil {
		t.Fatal(e)
	}
	if _, send := s.boot(4, ""); send(api.TraceRequest{Reads: trace.EncodeReads(now)}) != nil {
		t.Fatal("the trace was refused")
	}
	r = s.packed(version, "", func(r image.PackRecord) bool { return r.Boots == 2 })
	b, _ := s.boot(5, "")
	if fit := build.FitOf(s.verified(b).Extents, now); fit.Misses != 0 || fit.Wasted != 0 || r.Sequence != 2 || r.From != "" {
		t.Errorf("recorded: %+v, %+v", r, fit)
	}
	s.verified(a) // a boot under way still has the one that it began with
}

// Machines that read something else get a pack of their own, and one that reads something else by now another one.
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
	s.packed(version, "", func(r image.PackRecord) bool { return r.Boots == 2 })
	boots("Lap (2)", "usr/bin/p0", "usr/bin/p2", "usr/bin/p3")
	s.packed(version, "qemu-lap-2", func(r image.PackRecord) bool { return r.Boots == 2 })
	lap, _ := s.boot(200, "Lap (2)")
	other, _ := s.boot(201, "something else")
	if p, q := s.verified(lap), s.verified(other); p.Class != "qemu-lap-2" || q.Class != "" {
		t.Errorf("classes %q and %q", p.Class, q.Class)
	}
	if fit := build.FitOf(s.verified(lap).Extents, s.readsOf(m, "usr/bin/p0", "usr/bin/p2", "usr/bin/p3")); fit.Misses != 0 || fit.Wasted != 0 {
		t.Errorf("the pack of a class: %+v", fit)
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
		if err := s.traces.put(version, keptTrace{Boot: fleet.BootID(fmt.Sprint(i)), Reads: reads}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.packs.version(t.Context(), version); err != nil {
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
	if kept, err := s.traces.list(version); err != nil || len(kept) != 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
	if e := s.node(7).post("/v1/node/trace", "", api.TraceRequest{Reads: reads}, nil); e == nil || e.Code != api.Unauthorized {
		t.Errorf("without a session: error %v", e)
	}
	if e := send(api.TraceRequest{Reads: trace.EncodeReads([]trace.Read{{Start: 1, Blocks: 1}, {Start: blocks, Blocks: 1}})}); e != nil {
		t.Fatal(e)
	}
	kept, err := s.traces.list(version)
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if r, err := kept[0].recording(); err != nil || len(r.Reads) != 1 || r.Booted != 2500*time.Millisecond || kept[0].Class != "qemu" || kept[0].Node == "" {
		t.Errorf("kept %+v, %+v, %v", kept[0], r, err)
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

func TestClassOf(t *testing.T) {
	for want, h := range map[string]api.Hardware{
		"":                             {},
		"qemu":                         {Vendor: "QEMU"},
		"dell-inc-optiplex-7010":       {Vendor: "Dell Inc.", Product: "OptiPlex 7010 "},
		"a":                            {Product: "ÄÖa"},
		strings.Repeat("x", 63):        {Vendor: strings.Repeat("X", 100)},
		strings.Repeat("y-", 31) + "y": {Vendor: strings.Repeat("y ", 50)},
	} {
		got := classOf(h)
		if got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
		p := image.Pack{Version: image.Version(nil), Class: got, Pieces: []chunk.Entry{{RawSize: 4096, StoredSize: 9, Codec: chunk.Zstd, ID: chunk.Sum(nil)}},
			Extents: []image.Extent{{Blocks: 1}}}
		if _, err := p.Encode(); err != nil {
			t.Error(err)
		}
	}
}

// Traces of versions that nobody boots any more go, and so do files that are none.
func TestTracesAreBounded(t *testing.T) {
	tr := &traces{dir: t.TempDir()}
	for i := range tracedVersions + 5 {
		v := image.Version(fmt.Append(nil, i))
		if err := tr.put(v, keptTrace{Boot: "b", Reads: trace.EncodeReads(nil)}); err != nil {
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
	if kept, err := tr.list(last); err != nil || len(kept) != 1 {
		t.Errorf("the newest version has %v, %v", kept, err)
	}
	if kept, err := tr.list(image.Version([]byte("0"))); err != nil || kept != nil {
		t.Errorf("the oldest version has %v, %v", kept, err)
	}
}

// A pack that cannot be made is not tried at every boot, and is made when the reason is gone.
func TestPackIsTriedAgain(t *testing.T) {
	s := startSite(t)
	m, version := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	reads := trace.EncodeReads(s.readsOf(m, "file"))
	for i := range byte(2) {
		if err := s.traces.put(version, keptTrace{Boot: fleet.BootID(fmt.Sprint(i)), Reads: reads}); err != nil {
			t.Fatal(err)
		}
	}
	index := s.store.ObjectPath(m.Root.Index)
	if err := os.Rename(index, index+".away"); err != nil {
		t.Fatal(err)
	}
	p := &packs{store: s.store, versions: s.versions, registry: s.registry, traces: s.traces, key: s.keys.Site, now: s.now, log: slog.New(slog.DiscardHandler),
		dirty: map[fleet.Digest]bool{}, failed: map[fleet.Digest]time.Time{}, wake: make(chan struct{}, 1)}
	made := func() int {
		t.Helper()
		p.try(t.Context(), version)
		records, err := s.store.Packs(version)
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
	s.clock.add(retryAfter)
	if made() != 1 || len(p.failed) != 0 {
		t.Error("not tried again later")
	}
}
