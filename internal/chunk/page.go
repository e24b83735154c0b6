package chunk

import (
	"encoding/binary"
	"fmt"
	"sort"
)

const (
	pageMagic  = "PNDP"
	pageHeader = 16 // magic (4), format (1), zero (1), entries (2), raw bytes (8)
	pageFormat = 1
)

// MaxPageEntries bounds the entries of one page; an encoded page is then at most 20,496 bytes.
const MaxPageEntries = 512

// Page is one page of the index: consecutive extents.
type Page struct {
	Entries []Entry
	ends    []int64 // ends[i] is where entry i ends, counted from the page's start
}

// NewPage makes a page of entries. It keeps the slice.
func NewPage(entries []Entry) (*Page, error) {
	if len(entries) == 0 || len(entries) > MaxPageEntries {
		return nil, fmt.Errorf("index page: %d entries, want 1 to %d", len(entries), MaxPageEntries)
	}
	p := &Page{Entries: entries, ends: make([]int64, len(entries))}
	end := int64(0)
	for i, e := range entries {
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("index page: entry %d: %w", i, err)
		}
		end += int64(e.RawSize)
		p.ends[i] = end
	}
	return p, nil
}

// RawSize returns the number of raw bytes that the page covers.
func (p *Page) RawSize() int64 { return p.ends[len(p.ends)-1] }

// Find returns the entry that covers offset off, and the offset at which that entry starts. Both offsets
// count from the start of the page; off is at least 0 and below RawSize, or Find panics.
func (p *Page) Find(off int64) (i int, start int64) {
	if off < 0 || off >= p.RawSize() {
		panic(fmt.Sprintf("index page: offset %d outside of %d bytes", off, p.RawSize()))
	}
	i = sort.Search(len(p.ends), func(i int) bool { return p.ends[i] > off })
	return i, p.ends[i] - int64(p.Entries[i].RawSize)
}

// Encode returns the page's bytes, which Encoder.Encode then compresses into an object.
func (p *Page) Encode() []byte {
	b := make([]byte, 0, pageHeader+len(p.Entries)*EntrySize)
	b = append(b, pageMagic...)
	b = append(b, pageFormat, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Entries)))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.RawSize()))
	for _, e := range p.Entries {
		b = e.Append(b)
	}
	return b
}

// DecodePage is the inverse of Page.Encode. It accepts only bytes that Encode would write.
func DecodePage(b []byte) (*Page, error) {
	if len(b) < pageHeader || string(b[:4]) != pageMagic {
		return nil, fmt.Errorf("index page: %d bytes that do not start with %q", len(b), pageMagic)
	}
	if b[4] != pageFormat || b[5] != 0 {
		return nil, fmt.Errorf("index page: unknown format %d.%d", b[4], b[5])
	}
	n := int(binary.LittleEndian.Uint16(b[6:]))
	if len(b) != pageHeader+n*EntrySize {
		return nil, fmt.Errorf("index page: %d bytes do not hold %d entries", len(b), n)
	}
	entries := make([]Entry, 0, min(n, MaxPageEntries))
	for r := b[pageHeader:]; len(r) > 0; r = r[EntrySize:] {
		entries = append(entries, ReadEntry(r))
	}
	p, err := NewPage(entries)
	if err != nil {
		return nil, err
	}
	if uint64(p.RawSize()) != binary.LittleEndian.Uint64(b[8:]) {
		return nil, fmt.Errorf("index page: the header says %d raw bytes, the entries %d",
			binary.LittleEndian.Uint64(b[8:]), p.RawSize())
	}
	return p, nil
}
