package server

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/testkit"
	"pando/internal/trace"
)

func program(seed uint64, size int) []byte { return testkit.Program(seed, size) }

// addRoot adds a version whose root is a real file system with these files.
func (s *site) addRoot(files map[string][]byte) (image.Manifest, fleet.Digest) {
	s.t.Helper()
	root := s.realRoot(files)
	return s.addImage(func(m *image.Manifest) { m.Root = root })
}

// realRoot stores a file system with these files.
func (s *site) realRoot(files map[string][]byte) image.Root {
	s.t.Helper()
	return testkit.StoreRoot(s.t, s.store, files)
}

// readsOf returns the reads of a boot that opens these files.
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

// boot boots a new machine up to its report, and returns its assignment and a function that sends its trace.
func (s *site) boot(number byte, product string) (fleet.Assignment, func(api.TraceRequest) *api.Error) {
	s.t.Helper()
	n := s.nodeAt(number, netip.AddrFrom4([4]byte{127, 0, 0, number}))
	cfg := n.load()
	register := registrationOf(cfg)
	register.Hardware.Product = product
	var resp api.RegisterResponse
	if e := n.post("/v1/node/hello", "", register, &resp); e != nil {
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

// packed waits until a version has a boot pack for which good returns true.
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

// verified fetches and checks the pack map of an assignment, like a node.
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
