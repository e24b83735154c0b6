package chunk

import (
	"sync"
	"testing"
)

// TestDecoderBuffers: consecutive calls unpack into the same buffer; concurrent calls use no more buffers than slots.
func TestDecoderBuffers(t *testing.T) {
	var r Decoder
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	for size := range 20 {
		buffer := r.take(1000 * size)
		if cap(buffer) < 1000*size || len(buffer) != 0 {
			t.Fatalf("%d of %d bytes, want room for %d", len(buffer), cap(buffer), 1000*size)
		}
		r.give(buffer)
	}
	if len(r.free) != 1 {
		t.Errorf("%d buffers for pieces that were unpacked one after the other", len(r.free))
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { r.give(r.take(10)) })
	}
	all.Wait()
	if len(r.free) > decodersMost {
		t.Errorf("%d buffers, %d pieces at a time", len(r.free), decodersMost)
	}
}
