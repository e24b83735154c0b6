package piecestore

import (
	"bytes"
	"testing"
	"unsafe"

	"pando/internal/chunk"
)

// A pack that fits whole is in one mapping, each piece once at its own place.
func TestMemory(t *testing.T) {
	stored := [][]byte{[]byte("one"), []byte("three"), []byte("seven")}
	var pieces []chunk.Entry
	var came []chunk.Verified
	for _, b := range stored {
		v, err := chunk.Check(chunk.Sum(b), b)
		if err != nil {
			t.Fatal(err)
		}
		pieces, came = append(pieces, chunk.Entry{ID: v.ID(), StoredSize: len(b)}), append(came, v)
	}
	s := newMemory(pieces, 13)
	for _, i := range []int{2, 0, 1} {
		v := s.put(i, came[i])
		if v.ID() != came[i].ID() || !bytes.Equal(v.Stored(), stored[i]) || cap(v.Stored()) != len(stored[i]) {
			t.Errorf("piece %d came as %q, of %d bytes", i, v.Stored(), cap(v.Stored()))
		}
		if unsafe.SliceData(v.Stored()) == unsafe.SliceData(stored[i]) {
			t.Errorf("piece %d is where it came", i)
		}
		if again := s.put(i, came[i]); unsafe.SliceData(again.Stored()) != unsafe.SliceData(stored[i]) {
			t.Errorf("piece %d is written a second time", i)
		}
	}
	if string(s.bytes) != "onethreeseven" {
		t.Errorf("%q", s.bytes)
	}
	few := newMemory(pieces, 12)
	if v := few.put(0, came[0]); few.bytes != nil || unsafe.SliceData(v.Stored()) != unsafe.SliceData(stored[0]) {
		t.Error("what may have to make room is in the mapping")
	}
}
