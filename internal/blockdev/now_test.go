package blockdev

import (
	"bytes"
	"testing"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// openIdle opens half of an image with an idle pack, of pieces of eight blocks.
func openIdle(t *testing.T) (*testImage, *record, *Device) {
	img := randomImage(t, 160)
	src, r := &source{img: img}, &record{}
	d := open(t, src, r.idle(img, src, img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 80}}, 8)))
	return img, r, d
}

// Bytes that one read unpacked are there for the next read at once, and count as read. Other bytes are left to ReadAt.
func TestReadNow(t *testing.T) {
	img, r, d := openIdle(t)
	p := make([]byte, 2*chunk.BlockSize)
	if d.ReadNow(p, 0) {
		t.Error("read before anything came")
	}
	if err := d.ReadAt(t.Context(), make([]byte, 1), 0); err != nil {
		t.Fatal(err)
	}
	had := r.served["pack"]
	if !d.ReadNow(p, 3*chunk.BlockSize) || !bytes.Equal(p, img.raw[3*chunk.BlockSize:][:len(p)]) ||
		r.served["pack"] != had+len(p) {
		t.Errorf(
			"of a piece that is there: other bytes, or not at once; %d bytes counted, %d before",
			r.served["pack"],
			had,
		)
	}
	for what, off := range map[string]int64{"half of it is in the next piece": 7 * chunk.BlockSize, "not in the " +
		"pack": 100 * chunk.BlockSize, "before the root": -1,
		"over its end": d.Size() - 1} {
		if clear(p); d.ReadNow(p, off) || !bytes.Equal(p, make([]byte, len(p))) {
			t.Errorf("%s: read at once", what)
		}
	}
}

// Raw bytes of a completely read piece are dropped: the kernel keeps what it has read. Those of a piece with unread
// bytes stay.
func TestWhatWasReadMakesRoom(t *testing.T) {
	img, _, d := openIdle(t)
	there := func(piece int) bool {
		_, ok := d.raws.peek(rawKey{d.pack.pieces[piece].ID, true})
		return ok
	}
	all, most := make([]byte, 8*chunk.BlockSize), make([]byte, 7*chunk.BlockSize)
	for piece, last := range []func(p []byte, off int64){
		func(p []byte, off int64) { d.ReadNow(p, off) },
		func(p []byte, off int64) { _ = d.ReadAt(t.Context(), p, off) },
	} {
		begin := int64(piece) * 8 * chunk.BlockSize
		if err := d.ReadAt(t.Context(), most, begin); err != nil || !there(piece) {
			t.Errorf("piece %d, all but a block of it was read: %v, there: %v", piece, err, there(piece))
		}
		if last(all[:chunk.BlockSize], begin+7*chunk.BlockSize); there(piece) {
			t.Errorf("piece %d is still there as raw bytes, and all of it was read", piece)
		}
		if err := d.ReadAt(t.Context(), all, begin); err != nil || !bytes.Equal(all, img.raw[begin:][:len(all)]) ||
			!there(piece) {
			t.Errorf("piece %d, read again: %v; it is wanted more than once, and kept: %v", piece, err, there(piece))
		}
	}
}
