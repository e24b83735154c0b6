package build

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// packTree returns a tree with files that compress like programs, and a file of zeros.
func packTree(programs int) []testkit.Node {
	nodes := testkit.AwkwardTree()
	for i := range programs {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		var b bytes.Buffer
		for b.Len() < 100_000+i*1000 {
			b.WriteString([]string{"push", "call", "ret\n", "mov\t", "%rax,", "\x00\x00"}[rng.IntN(6)])
		}
		nodes = append(
			nodes,
			testkit.Node{Path: "usr/bin/program" + string(rune('a'+i)), Mode: unix.S_IFREG | 0o755, Data: b.Bytes()},
		)
	}
	return append(nodes, testkit.Node{Path: "usr/lib/zeros", Mode: unix.S_IFREG | 0o644, Data: make([]byte, 200_000)})
}

// buildTree makes a version of a tree.
func buildTree(t *testing.T, opt Options, nodes []testkit.Node) Result {
	t.Helper()
	opt.FromDir = t.TempDir()
	testkit.MakeTree(t, opt.FromDir, nodes)
	return mustBuild(t, opt)
}

func mapOf(t *testing.T, opt Options, r Result) *imagefs.Map {
	t.Helper()
	m, err := imagefs.ReadMap(t.Context(), opt.Store, r.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bootOf returns a recording of a boot that reads the inodes and all of these files.
func bootOf(t *testing.T, m *imagefs.Map, paths ...string) packer.Recording {
	t.Helper()
	r := packer.Recording{Reads: []trace.Read{{Start: 0, Blocks: 1}}}
	for _, p := range paths {
		f, ok := m.Find(p)
		if !ok || f.Blocks == 0 {
			t.Fatalf("%s is not in the map: %+v", p, f)
		}
		r.Reads = append(r.Reads, trace.Read{Start: f.Inode, Blocks: 1}, trace.Read{Start: f.Start, Blocks: f.Blocks})
	}
	return r
}

func mustPack(t *testing.T, opt Options, r Result, order packer.Order) bootpack.Record {
	t.Helper()
	record, err := packer.Make(
		t.Context(),
		packer.Options{
			Store:    opt.Store,
			Keys:     opt.Keys,
			Version:  r.Version,
			Manifest: r.Manifest,
			Order:    order,
			Boots:    2,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// packOf verifies a pack as a node does, and compares its blocks with the root file system.
func packOf(t *testing.T, opt Options, r Result, record bootpack.Record) bootpack.Map {
	t.Helper()
	get := func(id chunk.ID) []byte {
		b, err := opt.Store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	pub, _ := testKey(t)
	p, err := bootpack.Verify(get(record.Object), []byte(record.Signature), r.Version, pub)
	if err != nil {
		t.Fatal(err)
	}
	var packed []byte
	for _, e := range p.Pieces {
		raw := make([]byte, e.RawSize)
		if err := new(chunk.Decoder).Decode(raw, get(e.ID), e.Codec); err != nil {
			t.Fatal(err)
		}
		packed = append(packed, raw...)
	}
	raw, err := os.ReadFile(rawOf(t, opt.Store, r.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Extents {
		n := int(e.Blocks) * chunk.BlockSize
		if e.Unused() {
			packed = packed[n:]
			continue
		}
		if !bytes.Equal(packed[:n], raw[int(e.Start)*chunk.BlockSize:][:n]) {
			t.Fatalf("the blocks at %d are not those of the root", e.Start)
		}
		packed = packed[n:]
	}
	return p
}

func TestPack(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	r := buildTree(t, opt, packTree(20))
	m := mapOf(t, opt, r)
	var paths []string
	for i := range 20 {
		paths = append(paths, "usr/bin/program"+string(rune('a'+i)))
	}
	order := packer.Merge([]packer.Recording{bootOf(t, m, append(paths, "usr/lib/zeros")...), bootOf(t, m, paths...)})
	order.Booted = 100
	first := mustPack(t, opt, r, order)
	p := packOf(t, opt, r, first)
	if first.Sequence != 1 || first.Boots != 2 || p.Sequence != 1 || p.RawSize() != first.Raw ||
		p.StoredSize() != first.Stored {
		t.Errorf("record %+v of %+v", first, p)
	}
	if got := packer.OrderOf(p); got.Booted != 100 || !slices.Equal(got.Extents, p.Extents) {
		t.Errorf("%d blocks until booted, want 100", got.Booted)
	}
	if p.Pieces[0].RawSize != 100*chunk.BlockSize || p.Booted != 1 {
		t.Errorf("the first of %d pieces until booted has %d bytes", p.Booted, p.Pieces[0].RawSize)
	}
	zeros, _ := m.Find("usr/lib/zeros")
	if fit := packer.FitOf(packer.OrderOf(p), []trace.Read{{Start: zeros.Start, Blocks: zeros.Blocks}}); fit.Hits != 0 {
		t.Errorf("%d blocks of zeros are in the pack", fit.Hits)
	}
	for i, e := range p.Pieces {
		whole := i == 0 || i == len(p.Pieces)-1 || e.RawSize >= 128<<10 || e.StoredSize >= 64<<10/2
		if e.RawSize > 512<<10 || e.StoredSize > 64<<10 || !whole {
			t.Errorf("piece %d has %d bytes, %d as it is sent", i, e.RawSize, e.StoredSize)
		}
	}
	again := mustPack(t, opt, r, order)
	if q := packOf(t, opt, r, again); again.Sequence != 2 || again.Object == first.Object ||
		!slices.Equal(q.Pieces, p.Pieces) {
		t.Errorf("recorded again: %+v", again)
	}
	if records, err := opt.Store.Packs(r.Version); err != nil || len(records) != 1 || records[0] != again {
		t.Errorf("records %+v, %v", records, err)
	}
	checkStore(t, opt.Store, 1)
	if left, _ := filepath.Glob(opt.Store.Path() + "/incoming/*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestPackSaysOfWhen: the time of a pack is when its traces were listed, because later traces are not in it. The time
// at which it replaces the previous pack is later: boots were given that one until then.
func TestPackSaysOfWhen(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	r := buildTree(t, opt, packTree(3))
	m := mapOf(t, opt, r)
	listed, ready := time.Unix(1_700_000_000, 0).UTC(), time.Unix(1_700_000_300, 0).UTC()
	for _, path := range []string{"usr/bin/programa", "usr/bin/programb"} {
		record, err := packer.Make(
			t.Context(),
			packer.Options{
				Store:    opt.Store,
				Keys:     opt.Keys,
				Version:  r.Version,
				Manifest: r.Manifest,
				Order:    packer.Merge([]packer.Recording{bootOf(t, m, path)}),
				Boots:    2,
				Traced:   listed,
				Now:      func() time.Time { return ready },
			},
		)
		if err != nil || !record.Made.Equal(listed) {
			t.Fatalf("made %s, %v; its traces were listed at %s", record.Made, err, listed)
		}
	}
	var over []bootpack.Replaced
	if _, err := opt.Store.CollectPacks(t.Context(), func(_ fleet.Digest, p bootpack.Replaced) bool {
		over = append(over, p)
		return false
	}); err != nil || len(over) != 1 || !over[0].Replaced.Equal(ready) {
		t.Errorf("replaced: %+v, %v; want one at %s", over, err, ready)
	}
}

// TestPackIsCarriedOver: the next version starts with the pack of its predecessor, and shares the pieces of unchanged
// files.
func TestPackIsCarriedOver(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	old := packTree(20)
	one := buildTree(t, opt, old)
	m := mapOf(t, opt, one)
	var paths []string
	for i := range 20 {
		paths = append(paths, "usr/bin/program"+string(rune('a'+i)))
	}
	record := mustPack(t, opt, one, packer.Merge([]packer.Recording{bootOf(t, m, paths...)}))
	p := packOf(t, opt, one, record)

	changed := append(
		packTree(20),
		testkit.Node{Path: "etc/new", Mode: unix.S_IFREG | 0o644, Data: bytes.Repeat([]byte("new\n"), 20_000)},
	)
	for i := range changed {
		if changed[i].Path == "usr/bin/programc" {
			changed[i].Data = append([]byte("patched"), changed[i].Data...)
		}
	}
	two := buildTree(t, opt, changed)
	order := packer.CarryOver(packer.OrderOf(p), m, mapOf(t, opt, two))
	q := packOf(t, opt, two, mustPack(t, opt, two, order))
	if fit := packer.FitOf(packer.OrderOf(q), bootOf(t, mapOf(t, opt, two), paths...).Reads); fit.Misses > 2 {
		t.Errorf("a boot of the new version: %+v", fit)
	}
	shared := 0
	for _, e := range q.Pieces {
		if slices.Contains(p.Pieces, e) {
			shared++
		}
	}
	if shared < len(q.Pieces)/2 {
		t.Errorf("%d of %d pieces are shared", shared, len(q.Pieces))
	}
}

func TestPackRefuses(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	r := buildTree(t, opt, packTree(1))
	zeros, _ := mapOf(t, opt, r).Find("usr/lib/zeros")
	po := packer.Options{Store: opt.Store, Keys: opt.Keys, Version: r.Version, Manifest: r.Manifest}
	for name, order := range map[string]packer.Order{
		"empty": {}, "zeros": {Extents: []bootpack.Extent{{Start: zeros.Start, Blocks: zeros.Blocks}}},
		"beyond the end": {Extents: []bootpack.Extent{{Start: 1 << 30, Blocks: 4}}},
	} {
		po.Order = order
		if _, err := packer.Make(t.Context(), po); !errors.Is(err, packer.ErrNothing) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	po.Order = packer.Order{Extents: []bootpack.Extent{{Start: 0, Blocks: 1}}}
	if _, err := packer.Make(ctx, po); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	if records, err := opt.Store.Packs(r.Version); err != nil || records != nil {
		t.Errorf("records %v, %v", records, err)
	}
	if _, err := opt.Store.Packs(fleet.Digest("../x")); err == nil {
		t.Error("packs of what is no version")
	}
}

// TestPiecesOfWhatDoesNotCompress: incompressible data also gives pieces of even size, and the same ones each time.
func TestPiecesOfWhatDoesNotCompress(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	noise := make([]byte, 3<<20)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(noise)
	r := buildTree(
		t,
		opt,
		append(packTree(1), testkit.Node{Path: "usr/lib/noise", Mode: unix.S_IFREG | 0o644, Data: noise}),
	)
	file, _ := mapOf(t, opt, r).Find("usr/lib/noise")
	order := packer.Order{Extents: []bootpack.Extent{{Start: file.Start, Blocks: file.Blocks}}, Booted: 300}
	p := packOf(t, opt, r, mustPack(t, opt, r, order))
	for i, e := range p.Pieces {
		if e.StoredSize > 64<<10 {
			t.Errorf("piece %d has %d bytes as it is sent, want at most %d", i, e.StoredSize, 64<<10)
		}
	}
	if got := packer.OrderOf(p); got.Booted != 300 || !slices.Equal(got.Extents, order.Extents) {
		t.Errorf("%d blocks until booted in %v", got.Booted, got.Extents)
	}
	if q := packOf(t, opt, r, mustPack(t, opt, r, order)); !slices.Equal(q.Pieces, p.Pieces) {
		t.Error("packed again it has other pieces")
	}
}
