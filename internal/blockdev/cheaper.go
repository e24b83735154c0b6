package blockdev

import "pando/internal/chunk"

// cheaperAsChunks reports whether the blocks of piece i cost fewer bytes as chunks, because the node has most of these
// chunks, from an earlier boot or an earlier version. It fetches no index page: without the pages it returns false.
func (d *Device) cheaperAsChunks(i int) bool {
	has := d.pack.Has
	if has == nil || has(d.pack.pieces[i].ID) {
		return false
	}
	missing, seen := 0, map[chunk.ID]bool{}
	begin, end := d.pack.begin(i), d.pack.ends[i]
	at := int64(0) // offset in the pack
	for _, e := range d.pack.Map.Extents {
		n := int64(e.Blocks) * chunk.BlockSize
		from, to := max(at, begin), min(at+n, end)
		if from < to && !e.Unused() {
			off := int64(e.Start)*chunk.BlockSize + from - at
			if !d.knows(off, to-from) {
				return false
			}
			extents, err := d.extents(d.ctx, off, to-from)
			if err != nil {
				return false
			}
			for _, x := range extents {
				if x.Codec != chunk.Zero && !seen[x.ID] && !has(x.ID) {
					missing += x.StoredSize
				}
				seen[x.ID] = true
			}
		}
		if at += n; at >= end || missing >= d.pack.pieces[i].StoredSize {
			break
		}
	}
	return missing < d.pack.pieces[i].StoredSize
}

// knows reports whether the node has the index pages that cover n bytes from off.
func (d *Device) knows(off, n int64) bool {
	select {
	case <-d.rooted:
	default:
		return false
	}
	for end := off + n; off < end; {
		i, base := d.root.Find(off)
		if _, ok := d.pages.peek(i); !ok && !d.pack.Has(d.root.Pages[i].ID) {
			return false
		}
		off = base + int64(d.root.Pages[i].RawSize)
	}
	return true
}
