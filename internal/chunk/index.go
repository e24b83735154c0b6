package chunk

import "fmt"

// Sizes of pages. Content decides where a page ends, so that two versions share the pages of unchanged regions: a
// page ends after an entry whose digest starts with seven zero bits, once it has minPageEntries. On average a page
// has 192 entries.
const (
	minPageEntries = 64
	pageBorder     = 0xfe
)

// Index is an encoded index.
type Index struct {
	Root    []byte   // an uncompressed object; its ID goes into the manifest
	Pages   [][]byte // the pages' objects, in order
	RawSize int64
}

// NewIndex makes the index of a file system from its entries, in order. It joins neighbouring Zero entries. maxChunk
// is the limit that Split was called with.
func NewIndex(entries []Entry, maxChunk int, enc *Encoder) (*Index, error) {
	entries = joinZeros(entries)
	var refs []PageRef
	idx := &Index{}
	for len(entries) > 0 {
		n := pageLength(entries)
		page, err := NewPage(entries[:n:n])
		if err != nil {
			return nil, fmt.Errorf("make index: page %d: %w", len(refs), err)
		}
		stored, codec := enc.Encode(page.Encode())
		refs = append(refs, PageRef{
			RawSize: page.RawSize(), Entries: n, StoredSize: len(stored), Codec: codec, ID: Sum(stored),
		})
		idx.Pages = append(idx.Pages, stored)
		entries = entries[n:]
	}
	root, err := NewRoot(refs, maxChunk)
	if err != nil {
		return nil, fmt.Errorf("make index: %w", err)
	}
	idx.Root, idx.RawSize = root.Encode(), root.RawSize()
	return idx, nil
}

// pageLength returns how many of the entries go into the first page.
func pageLength(entries []Entry) int {
	for i, e := range entries[:min(len(entries), MaxPageEntries)] {
		if i+1 >= minPageEntries && e.Codec != Zero && e.ID.Sum[0]&pageBorder == 0 {
			return i + 1
		}
	}
	return min(len(entries), MaxPageEntries)
}

func joinZeros(entries []Entry) []Entry {
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if last := len(out) - 1; e.Codec == Zero && last >= 0 && out[last].Codec == Zero &&
			out[last].RawSize+e.RawSize <= MaxZeroRun {
			out[last].RawSize += e.RawSize
			continue
		}
		out = append(out, e)
	}
	return out
}
