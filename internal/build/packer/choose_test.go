package packer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever pieces there are: those that are kept have at most a quarter of unused blocks, and together at most what
// is allowed; and of those that are not, none with fewer unused blocks would have fitted.
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
