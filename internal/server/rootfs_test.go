package server

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
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
	root := s.realRoot(files)
	return s.addImage(func(m *image.Manifest) { m.Root = root })
}

// realRoot stores a file system with these files.
func (s *site) realRoot(files map[string][]byte) image.Root {
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
	return image.Root{
		FileSystem: "erofs",
		Index:      s.storeRoot(root),
		Size:       int64(len(root)),
		ChunkSize:  chunk.DefaultChunkSize,
	}
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
	at, err := imagefs.ReadMap(s.t.Context(), s.store, m)
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
		{
			Stage:  trace.Device,
			Kind:   trace.End,
			Offset: 5 * time.Second,
		}, {Stage: trace.Booted, Kind: trace.End, Offset: 7500 * time.Millisecond},
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
func (s *site) packed(v fleet.Digest, class string, good func(bootpack.Record) bool) bootpack.Record {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	for {
		records, err := s.store.Packs(v)
		if err != nil {
			s.t.Fatal(err)
		}
		if r, ok := bootpack.Find(records, class); ok && r.Class == class && good(r) {
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
func (s *site) verified(a fleet.Assignment) bootpack.Map {
	s.t.Helper()
	if a.Pack == nil {
		s.t.Fatal("the assignment has no boot pack")
	}
	status, data := s.node(99).get("/o/" + strings.TrimPrefix(a.Pack.Object, "sha256:"))
	if status != 200 || int64(len(data)) != a.Pack.Size {
		s.t.Fatalf("boot pack: status %d, %d bytes, want %d", status, len(data), a.Pack.Size)
	}
	p, err := bootpack.Verify(data, []byte(a.Pack.Signature), a.Version, s.keys.SitePublic())
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}
