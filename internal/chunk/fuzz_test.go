package chunk

import (
	"bytes"
	"testing"
)

func FuzzDecodePage(f *testing.F) {
	p, err := NewPage(testEntries(7))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Encode())
	f.Add([]byte("PNDP\x01\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePage(b)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Encode(), b) {
			t.Fatal("accepted bytes that Encode would not write")
		}
		for _, off := range []int64{0, p.RawSize() / 2, p.RawSize() - 1} {
			if i, start := p.Find(off); off < start || off >= start+int64(p.Entries[i].RawSize) {
				t.Fatalf("Find(%d) = %d, %d", off, i, start)
			}
		}
	})
}

func FuzzDecodeRoot(f *testing.F) {
	refs := []PageRef{{RawSize: 5 * BlockSize, Entries: 2, StoredSize: 60, Codec: Zstd, ID: Sum(nil)}}
	r, err := NewRoot(refs, DefaultChunkSize)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(r.Encode())
	f.Add([]byte("PNDI\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRoot(b)
		if err != nil {
			return
		}
		if !bytes.Equal(r.Encode(), b) {
			t.Fatal("accepted bytes that Encode would not write")
		}
		r.Find(r.RawSize() - 1)
		_, _ = r.DecodePage(new(Decoder), 0, b)
	})
}

func FuzzDecode(f *testing.F) {
	enc, err := NewEncoder(1)
	if err != nil {
		f.Fatal(err)
	}
	good, codec := enc.Encode(bytes.Repeat([]byte("abcdefg\n"), 512))
	f.Add(good, byte(codec), BlockSize)
	f.Add([]byte{}, byte(Zero), BlockSize)
	var d Decoder
	f.Fuzz(func(t *testing.T, stored []byte, codec byte, size int) {
		if size < 0 || size > MaxRaw {
			return
		}
		_ = d.Decode(make([]byte, size), stored, Codec(codec)) // must not panic
	})
}
