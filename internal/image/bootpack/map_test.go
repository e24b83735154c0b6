package bootpack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

var update = flag.Bool("update", false, "rewrite golden files")

func testPack() Map {
	piece := func(name string, blocks, stored int, codec chunk.Codec) chunk.Entry {
		return chunk.Entry{
			RawSize:    blocks * chunk.BlockSize,
			StoredSize: stored,
			Codec:      codec,
			ID:         chunk.Sum([]byte(name)),
		}
	}
	return Map{
		Version:  fleet.Digest(chunk.Sum([]byte("version")).String()),
		Sequence: 7,
		Class:    "optiplex-7010",
		Booted:   2,
		Pieces: []chunk.Entry{
			piece(
				"a",
				64,
				100_000,
				chunk.Zstd,
			), piece("b", 40, 40*chunk.BlockSize, chunk.Stored), piece("c", 3, 77, chunk.Zstd),
		},
		Proofs: []chunk.FastDigest{chunk.FastSum([]byte("a")), chunk.FastSum([]byte("b")), chunk.FastSum([]byte("c"))},
		Extents: []Extent{
			{Start: 0, Blocks: 1},
			{Start: 5000, Blocks: 90},
			{Start: 4990, Blocks: 10},
			{Start: 170_000, Blocks: 6},
		},
	}
}

// plainPack returns a pack with a map of format 1, without fast digests.
func plainPack() Map {
	p := testPack()
	p.Proofs = nil
	return p
}

// sharedPack returns a pack with pieces of another version: two blocks at the beginning and three in the middle are
// not in its root.
func sharedPack() Map {
	p := testPack()
	p.Extents = []Extent{
		{UnusedBlock, 2},
		{Start: 5000, Blocks: 90},
		{UnusedBlock, 3},
		{Start: 5090, Blocks: 6},
		{Start: 0, Blocks: 6},
	}
	return p
}

// encoded returns the encoding of a valid pack.
func encoded(t testing.TB, p Map) []byte {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBytes(t *testing.T) {
	testPackBytes(t, plainPack(), "testdata/plain.golden.hex")
	testPackBytes(t, testPack(), "testdata/proved.golden.hex")
	testPackBytes(t, sharedPack(), "testdata/shared.golden.hex")
}

func testPackBytes(t *testing.T, p Map, golden string) {
	t.Helper()
	got := encoded(t, p)
	if *update {
		if err := os.WriteFile(golden, []byte(hex.Dump(got)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if hex.Dump(got) != string(want) {
		t.Errorf("the bytes of a pack's map changed:\n%s", hex.Dump(got))
	}
	back, err := Decode(got)
	if err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("decoded: %+v, %v", back, err)
	}
	if back.RawSize() != 107*chunk.BlockSize || back.StoredSize() != 100_077+40*chunk.BlockSize {
		t.Errorf("sizes %d, %d", back.RawSize(), back.StoredSize())
	}
}

// TestMapIsSmall: a typical boot (1,256 extents) has a small map, and one of ten times that size still fits.
func TestMapIsSmall(t *testing.T) {
	for extents, most := range map[int]int{1256: 24 << 10, 12560: 230 << 10} {
		p := testPack()
		p.Pieces, p.Proofs, p.Extents = nil, nil, nil
		for i := range extents {
			start := uint32(i*7919) % 180_000 * 16
			p.Extents = append(p.Extents, Extent{Start: start, Blocks: 12})
			if i%5 == 4 || i == extents-1 {
				n := (i%5 + 1) * 12
				p.Pieces = append(p.Pieces, chunk.Entry{
					RawSize: n * chunk.BlockSize, StoredSize: 9, Codec: chunk.Zstd, ID: chunk.Sum(fmt.Append(nil, i)),
				})
				p.Proofs = append(p.Proofs, chunk.FastSum(fmt.Append(nil, i)))
			}
		}
		if n := len(encoded(t, p)); n > most {
			t.Errorf("%d extents: %d bytes, want at most %d", extents, n, most)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Map)
		want   string
	}{
		"version":      {func(p *Map) { p.Version = "sha256:12" }, "digest"},
		"class":        {func(p *Map) { p.Class = "a/b" }, "hardware class"},
		"no pieces":    {func(p *Map) { p.Pieces, p.Proofs, p.Extents, p.Booted = nil, nil, nil, 0 }, "no pieces"},
		"few proofs":   {func(p *Map) { p.Proofs = p.Proofs[:2] }, "2 proofs of 3"},
		"booted":       {func(p *Map) { p.Booted = 4 }, "4 of 3"},
		"zeros":        {func(p *Map) { p.Pieces[1] = chunk.Entry{RawSize: 40 * chunk.BlockSize} }, "piece 1"},
		"large piece":  {func(p *Map) { p.Pieces[0].RawSize = chunk.MaxRaw + chunk.BlockSize }, "piece 0"},
		"sum":          {func(p *Map) { p.Extents[3].Blocks = 7 }, "108 blocks"},
		"empty extent": {func(p *Map) { p.Extents[0].Blocks = 0 }, "extent 0"},
		"beyond":       {func(p *Map) { p.Extents[3].Start = 1<<32 - 3 }, "extent 3"},
		"not joined":   {func(p *Map) { p.Extents[1].Start = 1 }, "continues"},
		"block twice":  {func(p *Map) { p.Extents[2].Start = 4991 }, "twice"},
		"unused twice": {func(p *Map) { p.Extents[0].Start, p.Extents[1].Start = UnusedBlock, UnusedBlock },
			"continues"},
		"no proofs": {func(p *Map) { p.Extents[1].Start, p.Proofs = UnusedBlock, nil }, "need proofs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPack()
			c.change(&p)
			if _, err := p.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, shared := encoded(t, testPack()), encoded(t, sharedPack())
	put32 := func(off int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	for name, bad := range map[string][]byte{
		"empty":           nil,
		"cut off":         good[:len(good)-1],
		"something after": append(bytes.Clone(good), 0),
		"magic":           append([]byte("PNDX"), good[4:]...),
		"format":          put32(4, 4|uint32(good[5])<<8|uint32(good[6])<<16),
		"none unused":     put32(4, formatShared|uint32(good[5])<<8|uint32(good[6])<<16),
		"cut off, shared": shared[:len(shared)-1],
		"plain":           put32(4, formatPlain|uint32(good[5])<<8|uint32(good[6])<<16),
		"algorithm":       put32(4, formatProved|2<<8|uint32(good[6])<<16),
		"many pieces":     put32(16, 1<<31),
		"many extents":    put32(20, 1<<31),
		"fewer extents":   put32(20, 3),
		"reserved":        put32(28, 1),
		"too long":        make([]byte, MaxSize+1),
		"long varint":     append(bytes.Clone(good[:len(good)-1]), 0x86, 0),
	} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestPlaced: extents are yielded piece by piece; an extent in two pieces is split.
func TestPlaced(t *testing.T) {
	type part struct {
		piece int
		Extent
	}
	var got []part
	for i, e := range sharedPack().Placed() {
		got = append(got, part{i, e})
	}
	want := []part{
		{0, Extent{UnusedBlock, 2}}, {0, Extent{5000, 62}}, {1, Extent{5062, 28}}, {1, Extent{UnusedBlock, 3}},
		{1, Extent{5090, 6}}, {1, Extent{0, 3}}, {2, Extent{3, 3}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range sharedPack().Placed() {
		break
	}
}

func newKey(t testing.TB) (public string, private minisign.PrivateKey) {
	t.Helper()
	pub, priv, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub.String(), priv
}

func TestVerify(t *testing.T) {
	pub, key := newKey(t)
	other, otherKey := newKey(t)
	data := encoded(t, testPack())
	version := testPack().Version
	sig := Sign(key, data)
	if got, err := Verify(data, sig, version, other, pub); err != nil || !reflect.DeepEqual(got, testPack()) {
		t.Errorf("a good signature: %+v, %v", got, err)
	}
	if Sign(key, data[:40]) != nil {
		t.Error("signed what is no map")
	}
	again := testPack()
	again.Sequence++
	next := encoded(t, again)
	for name, c := range map[string]struct{ data, sig []byte }{
		"unsigned":       {data, nil},
		"other key":      {data, Sign(otherKey, data)},
		"other sequence": {next, sig},
		"as a manifest":  {data, image.Sign(key, data)},
		"changed":        {append(bytes.Clone(data), 0), sig},
		"garbage":        {data, []byte("hello")},
		"very long":      {data, make([]byte, image.MaxSignature+1)},
	} {
		if _, err := Verify(c.data, c.sig, version, pub); !errors.Is(err, image.ErrWrongSignature) &&
			!errors.Is(err, image.ErrUnsigned) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Verify(data, sig, image.Version([]byte("another")), pub); err == nil {
		t.Error("accepted for another version")
	}
	if _, err := Verify(data, sig, version); err == nil {
		t.Error("accepted with no trusted key")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, testPack()))
	f.Add(encoded(f, plainPack()))
	f.Add(encoded(f, sharedPack()))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(encoded(t, p), b) {
			t.Fatal("accepted bytes that Encode would not write")
		}
		seen, unused := map[uint32]bool{}, int64(0)
		for _, e := range p.Extents {
			if uint64(e.Blocks) > MaxSize { // more than a list of blocks is for
				return
			}
			if e.Unused() {
				unused += int64(e.Blocks)
				continue
			}
			for block := e.Start; uint64(block) < e.End(); block++ {
				if seen[block] {
					t.Fatalf("block %d is there twice", block)
				}
				seen[block] = true
			}
		}
		if (int64(len(seen))+unused)*chunk.BlockSize != p.RawSize() {
			t.Fatalf("%d blocks in %d bytes", len(seen), p.RawSize())
		}
	})
}
