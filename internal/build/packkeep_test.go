package build

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/testkit"
)

// nextTree returns a tree after its nth update: every fourth program has changed in part.
func nextTree(nodes []testkit.Node, nth int) []testkit.Node {
	out, programs := slices.Clone(nodes), 0
	for i, n := range out {
		if !strings.HasPrefix(n.Path, "usr/bin/program") {
			continue
		}
		if programs++; programs%4 == nth {
			out[i].Data = bytes.Clone(n.Data)
			copy(
				out[i].Data[20_000:],
				bytes.Repeat(fmt.Appendf(nil, "of update %d in program %d ", nth, programs), 400+40*programs),
			)
		}
	}
	return out
}

// idsOf returns the IDs of a pack's pieces with their stored sizes.
func idsOf(p bootpack.Map) map[chunk.ID]int {
	out := map[chunk.ID]int{}
	for _, e := range p.Pieces {
		out[e.ID] = e.StoredSize
	}
	return out
}

// fresh returns how many bytes of pack p a node must fetch that has another pack.
func fresh(p, has bootpack.Map) int {
	n, there := 0, idsOf(has)
	for id, stored := range idsOf(p) {
		if _, ok := there[id]; !ok {
			n += stored
		}
	}
	return n
}

// TestPackKeepsPieces: the pack of the next version keeps pieces that are mostly unchanged, has new pieces for new
// blocks, and has everything in the order, in that order. So does the pack of the version after that.
func TestPackKeepsPieces(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	tree := packTree(20)
	r := buildTree(t, opt, tree)
	m := mapOf(t, opt, r)
	var paths []string
	for i := range 20 {
		paths = append(paths, "usr/bin/program"+string(rune('a'+i)))
	}
	boot := bootOf(t, m, paths...)
	order := packer.Merge([]packer.Recording{boot, boot})
	order.Booted = 200
	pack := packOf(t, opt, r, mustPack(t, opt, r, order))
	for nth := range 2 {
		tree = nextTree(tree, nth)
		next := buildTree(t, opt, tree)
		nextMap := mapOf(t, opt, next)
		carried := packer.CarryOver(packer.OrderOf(pack), m, nextMap)
		options := packer.Options{
			Store:    opt.Store,
			Keys:     opt.Keys,
			Version:  next.Version,
			Manifest: next.Manifest,
			Order:    carried,
			From:     r.Version,
		}
		record := func(o packer.Options) bootpack.Map {
			rec, err := packer.Make(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return packOf(t, opt, next, rec)
		}
		cut := record(options)
		options.Before = &pack
		kept := record(options)
		if got, want := fresh(kept, pack), fresh(cut, pack); got > want*3/4 {
			t.Errorf("%d bytes are new, and %d without the pack before", got, want)
		}
		sameBlocks(t, kept, cut)
		unused := 0
		for i, e := range kept.Placed() {
			if _, ok := idsOf(pack)[kept.Pieces[i].ID]; e.Unused() && !ok {
				t.Errorf("piece %d was made for this pack and has blocks that it does not use", i)
			}
			if e.Unused() {
				unused += int(e.Blocks)
			}
		}
		if unused == 0 || int64(unused) > carried.Blocks()/packer.UnusedOfAll {
			t.Errorf("%d blocks of %d are not used", unused, carried.Blocks())
		}
		piecesInOrder(t, kept, carried)
		pack, m, r = kept, nextMap, next
	}
	checkStore(t, opt.Store, 3)
}

// sameBlocks checks that two packs have the same blocks, and as many until booted as the second one has.
func sameBlocks(t *testing.T, a, b bootpack.Map) {
	t.Helper()
	var of [2][]uint32
	for i, o := range []packer.Order{packer.OrderOf(a), packer.OrderOf(b)} {
		for _, block := range o.Each() {
			of[i] = append(of[i], block)
		}
		slices.Sort(of[i])
	}
	if !slices.Equal(of[0], of[1]) {
		t.Errorf("%d blocks, want the same %d", len(of[0]), len(of[1]))
	}
	if packer.OrderOf(a).Booted < packer.OrderOf(b).Booted {
		t.Errorf("%d blocks until booted, want %d at least", packer.OrderOf(a).Booted, packer.OrderOf(b).Booted)
	}
}

// piecesInOrder checks that pieces are in the order in which the first of their blocks is needed.
func piecesInOrder(t *testing.T, p bootpack.Map, order packer.Order) {
	t.Helper()
	place := map[uint32]int64{}
	for at, b := range order.Each() {
		place[b] = at
	}
	first := make([]int64, len(p.Pieces))
	for i := range first {
		first[i] = order.Blocks()
	}
	for i, e := range p.Placed() {
		for b := e.Start; !e.Unused() && uint64(b) < e.End(); b++ {
			first[i] = min(first[i], place[b])
		}
	}
	if !slices.IsSorted(first) {
		t.Errorf("pieces begin with the blocks in these places: %v", first)
	}
	if n := slices.IndexFunc(first, func(at int64) bool { return at >= order.Booted }); cmp.Or(
		max(n, 0),
		len(first),
	) != p.Booted {
		t.Errorf("%d pieces until booted, want %d", p.Booted, n)
	}
}

// TestPackKeepsWhatIsThere: a piece that is missing or damaged is made again.
func TestPackKeepsWhatIsThere(t *testing.T) {
	testkit.NeedBuilder(t)
	opt := testOptions(t, t.TempDir(), "")
	r := buildTree(t, opt, packTree(4))
	m := mapOf(t, opt, r)
	order := packer.Merge([]packer.Recording{bootOf(t, m, "usr/bin/programa", "usr/bin/programb", "usr/bin/programc")})
	rec := mustPack(t, opt, r, order)
	pack := packOf(t, opt, r, rec)
	junk := pack
	junk.Pieces = slices.Clone(pack.Pieces)
	for i := range junk.Pieces {
		junk.Pieces[i].ID = chunk.Sum([]byte("is not there"))
	}
	junk.Pieces[0].ID = rec.Object // of other bytes
	rec, err := packer.Make(
		t.Context(),
		packer.Options{
			Store:    opt.Store,
			Keys:     opt.Keys,
			Version:  r.Version,
			Manifest: r.Manifest,
			Order:    order,
			Before:   &junk,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := packOf(t, opt, r, rec); !slices.Equal(got.Pieces, pack.Pieces) ||
		!slices.Equal(got.Extents, pack.Extents) {
		t.Errorf("another pack of the same order: %d pieces, %d extents", len(got.Pieces), len(got.Extents))
	}
}
