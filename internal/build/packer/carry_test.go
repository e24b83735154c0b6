package packer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
)

// updated is a file in one release and in the next.
type updated struct {
	old, new imagefs.File
	gone     bool
}

// desktopUpdate makes the files of a desktop's root, and of the next release: some are removed, some are new, programs
// have other sizes and libraries other names, so all positions change.
func desktopUpdate(rng *rand.Rand) []updated {
	var out []updated
	for i := range 60_000 {
		letters := []byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/26/26%26), 'a' + byte(i/26/26/26)}
		f := updated{old: imagefs.File{Path: fmt.Sprintf("usr/share/%s", letters), Blocks: 1 + rng.Uint32N(14)}}
		if i%10 == 0 {
			f.old.Path, f.old.Blocks = fmt.Sprintf("usr/lib/lib%s.so.6.15", letters), 8+rng.Uint32N(48)
		}
		f.new = f.old
		switch rng.IntN(20) {
		case 0:
			f.gone = true
		case 1:
			f.new.Blocks = 1 + rng.Uint32N(2*f.old.Blocks)
		case 2:
			if i%10 == 0 {
				f.new.Path = fmt.Sprintf("usr/lib/lib%s.so.6.16", letters)
			}
		}
		out = append(out, f)
	}
	return out
}

// layOut places files: first inodes, 64 in a block, then contents. It returns the end of the file system.
func layOut(first uint32, files []*imagefs.File) (end uint32) {
	end = first + uint32(len(files)+63)/64
	for i, f := range files {
		f.Inode, f.Start = first+uint32(i/64), end
		end += f.Blocks
	}
	return end
}

func mapFiles(end uint32, files []*imagefs.File) *imagefs.Map {
	list := make([]imagefs.File, len(files))
	for i, f := range files {
		list[i] = *f
	}
	return imagefs.NewMap(int64(end)*chunk.BlockSize, list)
}

// desktopBoot returns a boot that reads parts of a tenth of the files, in any order, and before each the block with its
// inode.
func desktopBoot(rng *rand.Rand, files []updated) (blocks []uint32) {
	seen := map[uint32]bool{}
	read := func(b uint32) {
		if !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	for _, i := range rng.Perm(len(files)) {
		f := files[i].old
		read(f.Inode)
		from := rng.Uint32N(f.Blocks)
		for b := from; b < min(f.Blocks, from+32); b++ {
			read(f.Start + b)
		}
		if len(blocks) >= 92_000 {
			break
		}
	}
	return blocks
}

// The order of a desktop's pack is carried over to the next release. Each block of a file that still exists becomes the
// same block of that file, in the same order; blocks of inodes become those with the same files' inodes. The result
// fits into a map.
func TestCarryOverOfADesktop(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 5))
	files := desktopUpdate(rng)
	var olds, news []*imagefs.File
	for i := range files {
		olds = append(olds, &files[i].old)
		if i%50 == 0 {
			news = append(news, &imagefs.File{Path: fmt.Sprintf("usr/new/%x", i), Blocks: 1 + rng.Uint32N(100)})
		}
		if !files[i].gone {
			news = append(news, &files[i].new)
		}
	}
	oldEnd, newEnd := layOut(1, olds), layOut(3, news)
	boot := desktopBoot(rng, files)
	order := Order{Booted: int64(len(boot)) / 6}
	for _, b := range boot {
		order.add(b)
	}
	if mb := order.Blocks() * chunk.BlockSize / 1e6; mb < 370 {
		t.Fatalf("an order of %d MB is none of a desktop", mb)
	}
	want, booted := carriedByHand(files, oldEnd, boot, order.Booted)
	got := CarryOver(order, mapFiles(oldEnd, olds), mapFiles(newEnd, news))
	var flat []uint32
	for _, e := range got.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			flat = append(flat, b)
		}
	}
	if !slices.Equal(flat, want) || got.Booted != booted {
		t.Errorf("%d blocks, %d until booted; want %d and %d", len(flat), got.Booted, len(want), booted)
	}
	if kept := float64(len(want)) / float64(len(boot)); kept < 0.9 || kept > 1.1 {
		t.Errorf("%.2f of the blocks are left", kept)
	}
	data, err := packOfPieces(got).Encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf(
		"%.0f MB in %d extents, of %.0f MB; a map of %.0f KB",
		float64(len(want))*4096/1e6,
		len(got.Extents),
		float64(len(boot))*4096/1e6,
		float64(len(data))/1e3,
	)
}

// carriedByHand computes the expected blocks without a file map: it knows the file of each block.
func carriedByHand(files []updated, end uint32, boot []uint32, booted int64) (out []uint32, outBooted int64) {
	owner, inodes := make([]int, end), map[uint32][]int{}
	for i, f := range files {
		inodes[f.old.Inode] = append(inodes[f.old.Inode], i)
		for b := range f.old.Blocks {
			owner[f.old.Start+b] = i
		}
	}
	seen := map[uint32]bool{}
	add := func(b uint32) {
		if !seen[b] {
			seen[b] = true
			out = append(out, b)
		}
	}
	for at, b := range boot {
		if int64(at) == booted {
			outBooted = int64(len(out))
		}
		if of, ok := inodes[b]; ok {
			for _, i := range of {
				if !files[i].gone {
					add(files[i].new.Inode)
				}
			}
			continue
		}
		f := files[owner[b]]
		if off := b - f.old.Start; !f.gone && off < f.new.Blocks {
			add(f.new.Start + off)
		}
	}
	return out, outBooted
}

// packOfPieces returns a pack of an order in pieces of 256 KiB that have a third of that on the wire.
func packOfPieces(o Order) bootpack.Map {
	p := bootpack.Map{Version: image.Version([]byte("v")), Sequence: 1, Extents: o.Extents, Booted: 1}
	for left := o.Blocks(); left > 0; left -= 64 {
		raw := int(min(left, 64)) * chunk.BlockSize
		id := chunk.Sum(binary.LittleEndian.AppendUint64(nil, uint64(left)))
		p.Pieces = append(p.Pieces, chunk.Entry{RawSize: raw, StoredSize: raw / 3, Codec: chunk.Zstd, ID: id})
	}
	return p
}
