package chunk

import (
	"sync"
	"testing"
)

// One after the other, pieces are unpacked in the same buffer; together, in no more than there are turns for.
func TestUnpackRooms(t *testing.T) {
	r := &unpackRooms{turns: make(chan struct{}, roomsMost)}
	for size := range 20 {
		room := r.take(1000 * size)
		if cap(room) < 1000*size || len(room) != 0 {
			t.Fatalf("%d of %d bytes, want room for %d", len(room), cap(room), 1000*size)
		}
		r.give(room)
	}
	if len(r.free) != 1 {
		t.Errorf("%d buffers for pieces that were unpacked one after the other", len(r.free))
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { r.give(r.take(10)) })
	}
	all.Wait()
	if len(r.free) > roomsMost {
		t.Errorf("%d buffers, %d pieces at a time", len(r.free), roomsMost)
	}
}
