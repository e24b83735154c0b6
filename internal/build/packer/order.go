package packer

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"pando/internal/image/bootpack"
	"pando/internal/trace"
)

// Recording is what one boot read, and when it had booted.
type Recording struct {
	Reads  []trace.Read
	Booted time.Duration // since the device was attached; 0: not known, all reads count as the boot
	Beyond bool          // it continued until a mark after the usual end of a recording
}

// Order is the blocks of a boot pack in the order in which they are sent.
type Order struct {
	Extents []bootpack.Extent
	Booted  int64 // the first Booted blocks are read until the boot has booted
}

// Blocks returns the number of blocks.
func (o Order) Blocks() int64 {
	n := int64(0)
	for _, e := range o.Extents {
		n += int64(e.Blocks)
	}
	return n
}

// Each yields the place and the number of each block.
func (o Order) Each() iter.Seq2[int64, uint32] {
	return func(yield func(int64, uint32) bool) {
		place := int64(0)
		for _, e := range o.Extents {
			for b := e.Start; uint64(b) < e.End(); b++ {
				if !yield(place, b) {
					return
				}
				place++
			}
		}
	}
}

// add appends a block.
func (o *Order) add(block uint32) {
	o.Extents = bootpack.AppendExtent(o.Extents, bootpack.Extent{Start: block, Blocks: 1})
}

// touch records the first reads of a block.
type touch struct {
	block uint32
	at    []int // for each boot that read it: blocks that the boot had read before that request
	late  int   // boots that read it after they had booted
	far   int   // boots that read it and whose recording is Beyond
	place int   // median of at
}

// Merge joins recordings of one version:
//
//   - A block is in if at least half of the boots read it. Of two boots that is all that either read; of
//     more, not what a single boot read, such as on unusual hardware or by a node that lies.
//   - A block that most boots read after they had booted is also in if at least half of the Beyond
//     recordings have it, because the other recordings ended earlier.
//   - Blocks are ordered by the median place at which boots read them first. The place is that of the
//     whole request, so that the blocks of one request stay together.
func Merge(recordings []Recording) Order {
	touches, beyond := map[uint32]*touch{}, 0
	for _, r := range recordings {
		r.touch(touches)
		if r.Beyond {
			beyond++
		}
	}
	var in []*touch
	for _, t := range touches {
		if 2*len(t.at) >= len(recordings) || t.rank() == 1 && t.far > 0 && 2*t.far >= beyond {
			slices.Sort(t.at)
			t.place = t.at[(len(t.at)-1)/2]
			in = append(in, t)
		}
	}
	slices.SortFunc(in, func(a, b *touch) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.place, b.place), cmp.Compare(a.block, b.block))
	})
	var o Order
	for _, t := range in {
		if t.rank() == 0 {
			o.Booted++
		}
		o.add(t.block)
	}
	return o
}

// rank returns 1 for a block that most boots read only after they had booted, else 0.
func (t *touch) rank() int {
	if 2*t.late > len(t.at) {
		return 1
	}
	return 0
}

func (r Recording) touch(touches map[uint32]*touch) {
	seen := map[uint32]bool{}
	for _, read := range r.Reads {
		place := len(seen)
		for b := read.Start; uint64(b) < read.End(); b++ {
			if seen[b] {
				continue
			}
			seen[b] = true
			t := touches[b]
			if t == nil {
				t = &touch{block: b}
				touches[b] = t
			}
			t.at = append(t.at, place)
			if r.Beyond {
				t.far++
			}
			if r.Booted > 0 && read.At > r.Booted {
				t.late++
			}
		}
	}
}

// Fit tells how well a pack serves a boot, in blocks.
type Fit struct {
	Hits        int64 // blocks read that are in the pack
	Misses      int64 // blocks read that are not in the pack
	Wasted      int64 // blocks in the pack until booted that were not read
	WastedLater int64 // blocks in the pack after booted that were not read: not every boot continues for so long
}

// FitOf compares a pack with what one boot read.
func FitOf(pack Order, reads []trace.Read) Fit {
	f, left := Fit{}, map[uint32]*int64{} // counter of each block that was not read; nil: it was read
	for _, e := range pack.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			if left[b] = &f.WastedLater; int64(len(left)) <= pack.Booted {
				left[b] = &f.Wasted
			}
			*left[b]++
		}
	}
	missed := map[uint32]bool{}
	for _, r := range reads {
		for b := r.Start; uint64(b) < r.End(); b++ {
			switch count, ok := left[b]; {
			case !ok:
				missed[b] = true
			case count != nil:
				*count--
				left[b] = nil
				f.Hits++
			}
		}
	}
	f.Misses = int64(len(missed))
	return f
}
