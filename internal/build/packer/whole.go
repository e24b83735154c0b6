package packer

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
)

// MakeWhole makes a boot pack with all blocks of an extension's version. No boot has to be recorded for it, because the
// order in which nodes read an extension is known.
func MakeWhole(ctx context.Context, opt Options) (bootpack.Record, error) {
	order, err := wholeOrder(ctx, opt)
	if err != nil {
		return bootpack.Record{}, err
	}
	opt.Order, opt.Boots, opt.From, opt.Class = order, 0, "", ""
	return Make(ctx, opt)
}

// wholeOrder returns all blocks in the order in which a node reads an extension ahead: first what describes files, then
// their contents, by directory and name. A file system of an unknown kind is ordered by block number.
func wholeOrder(ctx context.Context, opt Options) (Order, error) {
	at, err := imagefs.ReadMap(ctx, opt.Store, opt.Manifest)
	if ctx.Err() != nil {
		return Order{}, ctx.Err()
	}
	if err != nil {
		at = imagefs.NewMap(opt.Manifest.Root.Size, nil)
	}
	return whole(at), nil
}

func whole(m *imagefs.Map) Order {
	var files []imagefs.File
	taken := make([]bool, imagefs.BlockOf(m.Size+chunk.BlockSize-1))
	for _, f := range m.ByStart() {
		if f.Mode&unix.S_IFMT != unix.S_IFREG || uint64(f.Start)+uint64(f.Blocks) > uint64(len(taken)) {
			continue
		}
		files = append(files, f)
		for b := range f.Blocks {
			taken[f.Start+b] = true
		}
	}
	var o Order
	for b, is := range taken {
		if !is {
			o.add(uint32(b))
		}
	}
	slices.SortStableFunc(files, func(a, b imagefs.File) int { return asWalked(a.Path, b.Path) })
	for _, f := range files {
		for b := range f.Blocks {
			if taken[f.Start+b] { // otherwise it was added under another name of the file
				taken[f.Start+b] = false
				o.add(f.Start + b)
			}
		}
	}
	o.Booted = o.Blocks()
	return o
}

// asWalked compares paths in the order of filepath.WalkDir.
func asWalked(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
