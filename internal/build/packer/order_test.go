package packer

import (
	"reflect"
	"testing"
	"time"

	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/trace"
)

func read(start, blocks uint32, second int) trace.Read {
	return trace.Read{Start: start, Blocks: blocks, At: time.Duration(second) * time.Second}
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		in   []Recording
		want Order
	}{
		"nothing": {nil, Order{}},
		"one": {
			[]Recording{{Reads: []trace.Read{read(8, 2, 0), read(9, 3, 1), read(0, 1, 2)}}},
			Order{Extents: []bootpack.Extent{{Start: 8, Blocks: 4}, {Start: 0, Blocks: 1}}, Booted: 5},
		},
		"two: all that either read": {
			[]Recording{{Reads: []trace.Read{read(0, 1, 0), read(5, 1, 1)}},
				{Reads: []trace.Read{read(0, 1, 0), read(7, 1, 1)}}},
			Order{Extents: []bootpack.Extent{{Start: 0, Blocks: 1}, {Start: 5, Blocks: 1}, {Start: 7, Blocks: 1}},
				Booted: 3},
		},
		"three: not what one of them read": {
			[]Recording{
				{Reads: []trace.Read{read(4, 1, 0), read(0, 1, 0)}},
				{Reads: []trace.Read{read(4, 1, 0), read(9, 90, 1), read(0, 1, 2)}},
				{Reads: []trace.Read{read(4, 1, 0), read(0, 1, 0)}},
			},
			Order{Extents: []bootpack.Extent{{Start: 4, Blocks: 1}, {Start: 0, Blocks: 1}}, Booted: 2},
		},
		"the median place": {
			[]Recording{
				{Reads: []trace.Read{read(1, 1, 0), read(2, 1, 0), read(3, 1, 0)}},
				{Reads: []trace.Read{read(3, 1, 0), read(1, 1, 0), read(2, 1, 0)}},
				{Reads: []trace.Read{read(1, 1, 0), read(3, 1, 0), read(2, 1, 0)}},
			},
			Order{Extents: []bootpack.Extent{{Start: 1, Blocks: 1}, {Start: 3, Blocks: 1}, {Start: 2, Blocks: 1}},
				Booted: 3},
		},
		// Two services start at once: the blocks of a request stay together, though the places interleave.
		"requests keep together": {
			[]Recording{
				{Reads: []trace.Read{read(100, 32, 0), read(500, 32, 0)}},
				{Reads: []trace.Read{read(500, 32, 0), read(100, 32, 0)}},
			},
			Order{Extents: []bootpack.Extent{{Start: 100, Blocks: 32}, {Start: 500, Blocks: 32}}, Booted: 64},
		},
		// The first two recordings ended before these reads.
		"what was recorded beyond the end of others": {
			[]Recording{
				{Reads: []trace.Read{read(1, 1, 5), read(3, 1, 11)}, Booted: 10 * time.Second},
				{Reads: []trace.Read{read(1, 1, 5), read(3, 1, 11)}, Booted: 10 * time.Second},
				{Reads: []trace.Read{read(1, 1, 5), read(7, 1, 6), read(3, 1, 11), read(9, 2, 90)},
					Booted: 10 * time.Second, Beyond: true},
			},
			Order{Extents: []bootpack.Extent{{Start: 1, Blocks: 1}, {Start: 3, Blocks: 1}, {Start: 9, Blocks: 2}},
				Booted: 1},
		},
		"what comes after booted is last": {
			[]Recording{
				{Reads: []trace.Read{read(1, 1, 5), read(9, 2, 11), read(3, 1, 12)}, Booted: 10 * time.Second},
				{Reads: []trace.Read{read(1, 1, 5), read(9, 2, 21), read(3, 1, 19)}, Booted: 20 * time.Second},
				{Reads: []trace.Read{read(1, 1, 5), read(9, 2, 21), read(3, 1, 19)}, Booted: 20 * time.Second},
			},
			Order{Extents: []bootpack.Extent{{Start: 1, Blocks: 1}, {Start: 3, Blocks: 1}, {Start: 9, Blocks: 2}},
				Booted: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(c.in); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFitOf(t *testing.T) {
	pack := Order{Extents: []bootpack.Extent{{Start: 10, Blocks: 10}, {Start: 0, Blocks: 1}}}
	reads := []trace.Read{read(0, 1, 0), read(18, 4, 1), read(18, 4, 2)}
	for booted, want := range map[int64]Fit{
		11: {Hits: 3, Misses: 2, Wasted: 8}, 9: {Hits: 3, Misses: 2, Wasted: 8},
		5: {Hits: 3, Misses: 2, Wasted: 5, WastedLater: 3}, 0: {Hits: 3, Misses: 2, WastedLater: 8},
	} {
		pack.Booted = booted
		if got := FitOf(pack, reads); got != want {
			t.Errorf("%d blocks until booted: got %+v, want %+v", booted, got, want)
		}
	}
}

func TestCarryOver(t *testing.T) {
	from := imagefs.NewMap(1<<20, []imagefs.File{
		{
			Path:  "",
			Dir:   true,
			Inode: 1,
		}, {Path: "usr", Dir: true, Start: 4, Blocks: 1, Inode: 1}, {Path: "etc/moved", Start: 10, Blocks: 4, Inode: 2},
		{
			Path:   "etc/gone",
			Start:  20,
			Blocks: 2,
			Inode:  2,
		}, {Path: "usr/lib/libssl.so.3.0.15", Start: 30, Blocks: 2, Inode: 2},
		{
			Path:   "lib/6.1.0-55/x.ko",
			Start:  40,
			Blocks: 2,
			Inode:  3,
		}, {Path: "lib/6.1.0-56/x.ko", Start: 50, Blocks: 2, Inode: 3},
	})
	to := imagefs.NewMap(1<<20, []imagefs.File{
		{
			Path:  "",
			Dir:   true,
			Inode: 1,
		}, {Path: "usr", Dir: true, Start: 5, Blocks: 1, Inode: 1},
		{Path: "etc/moved", Start: 110, Blocks: 2, Inode: 2},
		{Path: "usr/lib/libssl.so.3.0.16", Start: 130, Blocks: 3, Inode: 3},
		{
			Path:   "lib/6.1.0-56/x.ko",
			Start:  140,
			Blocks: 2,
			Inode:  3,
		}, {Path: "lib/6.1.0-57/x.ko", Start: 150, Blocks: 2, Inode: 4},
	})
	order := Order{Extents: []bootpack.Extent{
		{Start: 0, Blocks: 2}, // super block and inodes
		{Start: 4, Blocks: 1}, {Start: 11, Blocks: 3}, {Start: 20, Blocks: 2}, {Start: 2, Blocks: 1},
		{Start: 31, Blocks: 1}, {Start: 40, Blocks: 1}, {Start: 50, Blocks: 1}, {Start: 99, Blocks: 1},
	}, Booted: 6}
	want := Order{Extents: []bootpack.Extent{
		{
			Start:  0,
			Blocks: 2,
		}, {Start: 5, Blocks: 1}, {Start: 111, Blocks: 1}, // blocks that were cut off or removed are left out
		{Start: 2, Blocks: 2},   // the block of inodes became two
		{Start: 131, Blocks: 1}, // the library of the next release
		{Start: 140, Blocks: 1}, // the module of the same release; of another, two would do
	}, Booted: 4}
	if got := CarryOver(order, from, to); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	order.Booted = order.Blocks()
	if got := CarryOver(order, from, to); got.Booted != want.Blocks() {
		t.Errorf("%d of %d blocks until booted", got.Booted, want.Blocks())
	}
}
