package chunk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func testEntries(n int) []Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []Entry
	for i := range n {
		raw := (1 + rng.IntN(16)) * BlockSize
		switch i % 5 {
		case 0:
			out = append(out, Entry{RawSize: raw, Codec: Zero})
		case 1:
			out = append(out, Entry{RawSize: raw, StoredSize: raw, Codec: Stored, ID: Sum([]byte{byte(i)})})
		default:
			out = append(
				out,
				Entry{RawSize: raw, StoredSize: raw / 3, Codec: Zstd, ID: Sum([]byte{byte(i), byte(i >> 8)})},
			)
		}
	}
	return out
}

func TestPageFindsEveryByte(t *testing.T) {
	p, err := NewPage(testEntries(300))
	if err != nil {
		t.Fatal(err)
	}
	want, wantStart := 0, int64(0)
	for off := int64(0); off < p.RawSize(); off += BlockSize / 2 {
		if off >= wantStart+int64(p.Entries[want].RawSize) {
			wantStart += int64(p.Entries[want].RawSize)
			want++
		}
		if i, start := p.Find(off); i != want || start != wantStart {
			t.Fatalf("Find(%d) = %d, %d, want %d, %d", off, i, start, want, wantStart)
		}
	}
	back, err := DecodePage(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Encode(), p.Encode()) {
		t.Error("a page changes when it is decoded and encoded again")
	}
}

func testIndex(t *testing.T) (*Root, [][]byte) {
	t.Helper()
	enc, err := NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	var refs []PageRef
	var objects [][]byte
	for i := range 3 {
		p, err := NewPage(testEntries(40 * (i + 1)))
		if err != nil {
			t.Fatal(err)
		}
		stored, codec := enc.Encode(p.Encode())
		objects = append(objects, stored)
		refs = append(refs, PageRef{p.RawSize(), len(p.Entries), len(stored), codec, Sum(stored)})
	}
	r, err := NewRoot(refs, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	return r, objects
}

func TestRootFindsItsPages(t *testing.T) {
	r, objects := testIndex(t)
	back, err := DecodeRoot(r.Encode())
	if err != nil {
		t.Fatal(err)
	}
	start := int64(0)
	for i, ref := range back.Pages {
		for _, off := range []int64{start, start + ref.RawSize - 1} {
			if got, at := back.Find(off); got != i || at != start {
				t.Errorf("Find(%d) = %d, %d, want %d, %d", off, got, at, i, start)
			}
		}
		start += ref.RawSize
		if _, err := back.DecodePage(new(Decoder), i, objects[i]); err != nil {
			t.Error(err)
		}
	}
	if _, err := back.DecodePage(new(Decoder), 0, objects[1]); err == nil {
		t.Error("page 1 was accepted as page 0")
	}
}

func TestDecodeRefusesEveryOtherHeader(t *testing.T) {
	r, _ := testIndex(t)
	p, _ := NewPage(testEntries(10))
	for i := range pageHeader {
		b := p.Encode()
		b[i] ^= 1
		if _, err := DecodePage(b); err == nil {
			t.Errorf("a page with byte %d changed was accepted", i)
		}
	}
	for i := range rootHeader {
		b := r.Encode()
		b[i] ^= 0x10
		if _, err := DecodeRoot(b); err == nil &&
			(i < 12 || i > 15) { // 12 to 15: largest chunk, any multiple of a block
			t.Errorf("a root with byte %d changed was accepted", i)
		}
	}
}
