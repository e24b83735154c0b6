package packer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// For any pieces: each kept one has at most a quarter of unused blocks, and all together at most the limit. No piece
// that was left out has fewer unused blocks and would have fitted.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var pieces []*keptPiece
		for range rapid.IntRange(0, 30).Draw(rt, "pieces") {
			n := rapid.IntRange(1, 100).Draw(rt, "blocks")
			pieces = append(
				pieces,
				&keptPiece{blocks: make([]uint32, n), unused: rapid.IntRange(0, n).Draw(rt, "unused")},
			)
		}
		most := rapid.IntRange(0, 300).Draw(rt, "most")
		kept := choose(slices.Clone(pieces), most)
		left := most
		for _, p := range kept {
			if left -= p.unused; p.unused*4 > len(p.blocks) || left < 0 {
				rt.Fatalf("kept: %d of %d blocks unused, %d more than allowed", p.unused, len(p.blocks), -left)
			}
		}
		for _, p := range pieces {
			if p.unused == 0 && !slices.Contains(kept, p) {
				rt.Fatal("a piece with nothing unused is not kept")
			}
		}
	})
}
