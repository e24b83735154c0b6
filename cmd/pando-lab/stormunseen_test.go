package main

import (
	"strings"
	"testing"

	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/trace"
)

// Each boot is compared with the pack of the others, until it has booted: what it alone reads is a miss, what it
// does not read a waste.
func TestUnseenBoots(t *testing.T) {
	boot := func(blocks ...uint32) packer.Recording {
		r := packer.Recording{Booted: at(50)}
		for _, b := range blocks {
			r.Reads = append(r.Reads, trace.Read{Start: b, Blocks: 1, At: at(5)})
		}
		r.Reads = append(r.Reads, trace.Read{Start: 1000 + blocks[0], Blocks: 1, At: at(60)})
		return r
	}
	got := unseenOf([]packer.Recording{boot(1, 2, 3, 4), boot(1, 2, 3, 9)})
	want := unseen{Boots: 2, Hits: 6 * chunk.BlockSize, Misses: 2 * chunk.BlockSize, Wasted: 2 * chunk.BlockSize}
	if got == nil || *got != want {
		t.Fatalf("%+v, not %+v", got, want)
	}
	if text := got.text(); !strings.Contains(text, "75.0 %") || !strings.Contains(text, "2 recorded boots") {
		t.Error(text)
	}
	if one := unseenOf([]packer.Recording{boot(1)}); one != nil || one.text() != "" {
		t.Errorf("a single boot was compared: %+v", one)
	}
}
