package chunk

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

// samples returns raw pieces of the kinds that an image has.
func samples() map[string][]byte {
	rng := rand.New(rand.NewPCG(7, 7))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	half := slices.Clone(noise[:32<<10])
	for i := range half {
		half[i] &= 0x0f
	}
	words := strings.Fields("the quick brown fox jumps over a lazy dog and systemd starts another unit of it")
	var text strings.Builder
	for text.Len() < 64<<10 {
		text.WriteString(words[rng.IntN(len(words))] + " ")
	}
	records := make([]byte, 0, 64<<10)
	for i := 0; len(records) < 60<<10; i++ {
		records = fmt.Appendf(records, "%08x\x00\x01\x02%04d----", i*7919, i%100)
	}
	return map[string][]byte{
		"zeros":   make([]byte, 64<<10),
		"noise":   noise,
		"half":    half,
		"text":    []byte(text.String()[:64<<10]),
		"records": records[:56<<10],
		"block":   append([]byte("#!/bin/sh\necho hello\n"), make([]byte, BlockSize-21)...),
	}
}

// TestEncoderOutputIsPinned: the names of objects depend on the compressor's output. If this test fails after an
// upgrade of the compressor, builds of the same tree get new digests: keep the old version, or mention it in the
// changelog.
func TestEncoderOutputIsPinned(t *testing.T) {
	enc, err := NewEncoder(0)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	all := samples()
	for _, name := range []string{"block", "half", "noise", "records", "text", "zeros"} {
		stored, codec := enc.Encode(all[name])
		fmt.Fprintf(&got, "%-8s %-6s %6d of %6d %s\n", name, codec, len(stored), len(all[name]), Sum(stored))
		raw := make([]byte, len(all[name]))
		raw[0] = 0xff // must be overwritten
		if err := new(Decoder).Decode(raw, stored, codec); err != nil || !bytes.Equal(raw, all[name]) {
			t.Errorf("%s does not come back: %v", name, err)
		}
		clear(raw)
		cut := len(raw) / 3
		if err := new(Decoder).DecodeParts([][]byte{raw[:cut], nil, raw[cut:]}, stored, codec); err != nil ||
			!bytes.Equal(raw, all[name]) {
			t.Errorf("%s does not come back in parts: %v", name, err)
		}
	}
	const golden = "testdata/codec.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	enc, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	raw := samples()["text"]
	good, _ := enc.Encode(raw)
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 0x40
	bomb, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	huge := bomb.zstd.EncodeAll(make([]byte, 64<<20), nil)
	for name, c := range map[string]struct {
		stored []byte
		codec  Codec
		size   int
	}{
		"truncated":      {good[:len(good)-5], Zstd, len(raw)},
		"flipped":        {flipped, Zstd, len(raw)},
		"empty":          {nil, Zstd, len(raw)},
		"too long":       {good, Zstd, len(raw) - BlockSize},
		"too short":      {good, Zstd, len(raw) + BlockSize},
		"bomb":           {huge, Zstd, BlockSize},
		"stored shorter": {raw[1:], Stored, len(raw)},
		"unknown codec":  {raw, 9, len(raw)},
		"over the limit": {good, Zstd, MaxRaw + BlockSize},
	} {
		dst := make([]byte, c.size)
		if err := new(Decoder).Decode(dst, c.stored, c.codec); err == nil &&
			(name != "flipped" || bytes.Equal(dst, raw)) {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestDecodeDoesNotAllocateTheBomb(t *testing.T) {
	enc, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	huge := enc.zstd.EncodeAll(make([]byte, 64<<20), nil)
	dst := make([]byte, BlockSize)
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = new(Decoder).Decode(dst, huge, Zstd)
		}
	})
	if n := got.AllocedBytesPerOp(); n > 2*MaxRaw {
		t.Errorf("an object that unpacks to 64 MiB made the decoder allocate %d bytes", n)
	}
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 32).Draw(t, "limit") * BlockSize
		var files []Extent
		end := int64(0)
		for i := range rapid.IntRange(0, 60).Draw(t, "files") {
			start := end + rapid.Int64Range(0, 3).Draw(t, "gap")*BlockSize
			size := rapid.Int64Range(1, 300000).Draw(t, "size")
			files = append(files, Extent{start, size, fmt.Sprint("file", i)})
			end = (start + size + BlockSize - 1) / BlockSize * BlockSize
		}
		total := end + rapid.Int64Range(0, 100).Draw(t, "rest")*BlockSize
		if total == 0 {
			total = BlockSize
		}
		sizes, err := Split(total, files, limit)
		if err != nil {
			t.Fatal(err)
		}
		starts, sum := map[int64]bool{}, int64(0)
		for _, n := range sizes {
			if n <= 0 || n > limit || n%BlockSize != 0 {
				t.Fatalf("a chunk of %d bytes", n)
			}
			starts[sum] = true
			sum += int64(n)
		}
		if sum != total {
			t.Fatalf("%d bytes in chunks, %d in the image", sum, total)
		}
		for _, f := range files {
			if f.Size >= int64(limit)/2 && !starts[f.Start] {
				t.Fatalf("%q of %d bytes does not start a chunk of at most %d", f.Name, f.Size, limit)
			}
		}
	})
}

func TestSplitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		size  int64
		files []Extent
		limit int
	}{
		"no bytes":   {0, nil, DefaultChunkSize},
		"half block": {BlockSize / 2, nil, DefaultChunkSize},
		"limit":      {BlockSize, nil, MaxRaw + BlockSize},
		"overlap":    {8 * BlockSize, []Extent{{0, 5000, "a"}, {BlockSize, 1, "b"}}, DefaultChunkSize},
		"end":        {BlockSize, []Extent{{0, 5000, "a"}}, DefaultChunkSize},
		"not a file": {BlockSize, []Extent{{0, 0, "a"}}, DefaultChunkSize},
	} {
		if _, err := Split(c.size, c.files, c.limit); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestIndexSharesPages: an unchanged page is the same object in the next version, wherever it lies.
func TestIndexSharesPages(t *testing.T) {
	enc, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	entries := testEntries(5000)
	old, err := NewIndex(entries, 64<<10, enc)
	if err != nil {
		t.Fatal(err)
	}
	changed := slices.Insert(slices.Clone(entries), 2000, testEntries(3)...)
	again, err := NewIndex(changed, 64<<10, enc)
	if err != nil {
		t.Fatal(err)
	}
	have := map[ID]bool{}
	for _, p := range old.Pages {
		have[Sum(p)] = true
	}
	fresh := 0
	for _, p := range again.Pages {
		if !have[Sum(p)] {
			fresh++
		}
	}
	if fresh > 3 {
		t.Errorf("%d of %d pages are new after one insertion", fresh, len(again.Pages))
	}
	root, err := DecodeRoot(again.Root)
	if err != nil {
		t.Fatal(err)
	}
	if root.RawSize() != again.RawSize || len(root.Pages) != len(again.Pages) {
		t.Errorf(
			"root: %d bytes in %d pages, want %d in %d",
			root.RawSize(),
			len(root.Pages),
			again.RawSize,
			len(again.Pages),
		)
	}
}

func TestIndexJoinsZeros(t *testing.T) {
	enc, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for range 10000 { // 640 MB of nothing
		entries = append(entries, Entry{RawSize: 64 << 10, Codec: Zero})
	}
	idx, err := NewIndex(entries, 64<<10, enc)
	if err != nil {
		t.Fatal(err)
	}
	root, err := DecodeRoot(idx.Root)
	if err != nil {
		t.Fatal(err)
	}
	if root.Pages[0].Entries != 3 || root.RawSize() != 10000*64<<10 {
		t.Errorf("%d entries, %d bytes", root.Pages[0].Entries, root.RawSize())
	}
}
