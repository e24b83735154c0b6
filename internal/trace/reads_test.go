package trace

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func testReads() []Read {
	return []Read{
		{Start: 0, Blocks: 1}, {Start: 1, Blocks: 32, At: 3 * time.Millisecond},
		{Start: 170_000, Blocks: 6, At: 3 * time.Millisecond}, {Start: 9, Blocks: 2, At: 41 * time.Second},
	}
}

func TestReadsBytes(t *testing.T) {
	want := []byte("PNDR\x01\x00\x00\x00\x04\x00\x00\x00" +
		"\x00\x01\x00" + "\x00\x20\x03" + "\xde\xdf\x14\x06\x00" + "\x99\xe0\x14\x02\xa5\xc0\x02")
	got := EncodeReads(testReads())
	if !bytes.Equal(got, want) {
		t.Errorf("bytes %x, want %x", got, want)
	}
	back, err := DecodeReads(got)
	if err != nil || !reflect.DeepEqual(back, testReads()) {
		t.Errorf("decoded %v, %v", back, err)
	}
}

// Impossible values of a clock or device are corrected, and encoding the corrected reads changes nothing.
func TestEncodeReadsPutsRight(t *testing.T) {
	in := []Read{
		{Start: 5, Blocks: 1, At: -time.Second},
		{Start: 6, Blocks: 0},
		{Start: math.MaxUint32, Blocks: 2},
		{Start: 7, Blocks: 1, At: 2*time.Second + 7*time.Microsecond},
		{Start: 8, Blocks: 1, At: time.Second},
		{Start: 9, Blocks: 1, At: math.MaxInt64},
	}
	want := []Read{
		{Start: 5, Blocks: 1}, {Start: 7, Blocks: 1, At: 2 * time.Second}, {Start: 8, Blocks: 1, At: 2 * time.Second},
		{Start: 9, Blocks: 1, At: maxAt},
	}
	got, err := DecodeReads(EncodeReads(in))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("reads %v, %v; want %v", got, err, want)
	}
}

func TestEncodeReadsIsBounded(t *testing.T) {
	var in []Read
	for i := range 2 * MaxReads / 3 {
		in = append(in, Read{Start: uint32(i*7919) % 180_000, Blocks: 8, At: time.Duration(i) * time.Millisecond})
	}
	data := EncodeReads(in)
	got, err := DecodeReads(data)
	if err != nil || len(data) > MaxReads || len(data) < MaxReads-15 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if len(got) < 40_000 || !reflect.DeepEqual(got, in[:len(got)]) {
		t.Errorf("%d reads are not the first ones", len(got))
	}
}

// The trace of a usual boot is small, whatever it reads, because an agent sends it while other nodes boot. Here files
// are anywhere in a root of 2 GiB, and each is read in order, 8 to 32 blocks at a time.
func TestUsualReadsAreFewBytes(t *testing.T) {
	for name, x := range map[string]struct{ each, most int }{ // reads of a file, bytes
		"files in three reads": {3, 6_000},
		"each read elsewhere":  {1, 8_000},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		var reads []Read
		end, at := uint32(0), time.Duration(0)
		for i := range 1500 {
			if i%x.each == 0 {
				end = random.Uint32N(2 << 30 / 4096)
			}
			r := Read{Start: end, Blocks: 8 + random.Uint32N(25), At: at}
			end, at = uint32(r.End()), at+time.Duration(random.IntN(20))*time.Millisecond
			reads = append(reads, r)
		}
		data := EncodeReads(reads)
		got, err := DecodeReads(data)
		if err != nil || !reflect.DeepEqual(got, reads) || len(data) >= x.most {
			t.Errorf(
				"%s: %d reads in %d bytes, %v; want %d in less than %d",
				name,
				len(got),
				len(data),
				err,
				len(reads),
				x.most,
			)
		}
		t.Logf("%s: %d bytes", name, len(data))
	}
}

func TestDecodeReadsRefuses(t *testing.T) {
	good := EncodeReads(testReads())
	put := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		return b
	}
	for name, bad := range map[string][]byte{
		"empty":           nil,
		"magic":           put(3, 'X'),
		"format":          put(4, 2),
		"reserved":        put(7, 1),
		"more reads":      put(8, 5),
		"fewer reads":     put(8, 3),
		"very many reads": put(11, 0xff),
		"cut off":         good[:len(good)-1],
		"something after": append(bytes.Clone(good), 0),
		"no blocks":       put(13, 0),
		"too long":        make([]byte, MaxReads+1),
		"long varint":     append(append(put(8, 1)[:12], 0x80, 0), 1, 0),
	} {
		if reads, err := DecodeReads(bad); err == nil {
			t.Errorf("%s: accepted as %v", name, reads)
		}
	}
}

func FuzzDecodeReads(f *testing.F) {
	f.Add(EncodeReads(testReads()))
	f.Fuzz(func(t *testing.T, b []byte) {
		reads, err := DecodeReads(b)
		if err != nil {
			return
		}
		if !bytes.Equal(EncodeReads(reads), b) {
			t.Fatal("accepted bytes that EncodeReads would not write")
		}
		at := time.Duration(0)
		for _, r := range reads {
			if r.Blocks == 0 || r.End() > math.MaxUint32 || r.At < at {
				t.Fatalf("read %+v", r)
			}
			at = r.At
		}
	})
}
