package main

import (
	"fmt"
	"slices"

	"pando/internal/build/packer"
	"pando/internal/chunk"
)

// unseen is how boots do whose own recording is not in their boot pack: of each recorded boot, with the order that
// the other ones give. A storm replays a boot that its pack was made of, so it says nothing of this. Figures are
// bytes, raw, of all those boots.
type unseen struct {
	Boots  int   `json:"boots"`
	Hits   int64 `json:"hits"`   // read until booted, and in the pack
	Misses int64 `json:"misses"` // read until booted, and not in the pack
	Wasted int64 `json:"wasted"` // in the pack for the time until booted, and not read
}

// unseenOf leaves each boot out in turn; nil: there is but one.
func unseenOf(boots []packer.Recording) *unseen {
	if len(boots) < 2 {
		return nil
	}
	u := &unseen{Boots: len(boots)}
	for i, b := range boots {
		f := packer.FitOf(packer.Merge(slices.Delete(slices.Clone(boots), i, i+1)), newScript(b).reads)
		u.Hits += f.Hits * chunk.BlockSize
		u.Misses += f.Misses * chunk.BlockSize
		u.Wasted += f.Wasted * chunk.BlockSize
	}
	return u
}

// text is a sentence for the page.
func (u *unseen) text() string {
	if u == nil || u.Hits+u.Misses == 0 {
		return ""
	}
	n := int64(u.Boots)
	return fmt.Sprintf(
		"A storm replays a boot that its pack was made of. Of each of the %d recorded boots the pack of the "+
			"others would have %.1f %%; on average %.2f MB would come in chunks, and %.2f MB of the pack until "+
			"then not be read.\n",
		u.Boots,
		100*float64(u.Hits)/float64(u.Hits+u.Misses),
		mega(u.Misses/n),
		mega(u.Wasted/n),
	)
}
