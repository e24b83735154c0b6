package chunk

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
)

const (
	rootMagic  = "PNDI"
	rootHeader = 24 // magic (4), format (1), zeros (3), pages (4), largest chunk (4), raw bytes (8)
	rootFormat = 1
	refSize    = 48 // raw bytes (8), stored size (4), codec (1), algorithm (1), entries (2), digest (32)
)

// MaxPages bounds the pages of one index; with pages of 256 chunks of 64 KiB that is a terabyte.
const MaxPages = 1 << 16

// MaxRootSize is the largest encoded index root, in bytes.
const MaxRootSize = rootHeader + MaxPages*refSize

// PageRef names one page of the index. A page is an object like any other.
type PageRef struct {
	RawSize    int64 // bytes of the file system that the page covers
	Entries    int   // entries in the page, which gives its unpacked size (see PageSize)
	StoredSize int   // bytes of the page's object
	Codec      Codec // Stored or Zstd
	ID         ID
}

// PageSize returns the unpacked size of the page in bytes.
func (r PageRef) PageSize() int { return pageHeader + r.Entries*EntrySize }

func (r PageRef) check() error {
	switch {
	case r.RawSize <= 0 || r.RawSize%BlockSize != 0:
		return fmt.Errorf("raw size %d is not a multiple of %d", r.RawSize, BlockSize)
	case r.Entries <= 0 || r.Entries > MaxPageEntries:
		return fmt.Errorf("%d entries, want 1 to %d", r.Entries, MaxPageEntries)
	case r.ID.Algorithm != SHA256:
		return fmt.Errorf("unknown digest algorithm %d", r.ID.Algorithm)
	case r.Codec == Stored && r.StoredSize == r.PageSize():
		return nil
	case r.Codec == Zstd && r.StoredSize > 0 && r.StoredSize < r.PageSize():
		return nil
	}
	return fmt.Errorf("%s, %d bytes for %d", r.Codec, r.StoredSize, r.PageSize())
}

// Root is the first level of an index: the list of its pages. Its encoded bytes are an uncompressed object, which the
// manifest names.
type Root struct {
	Pages    []PageRef
	MaxChunk int // raw bytes of the largest entry that has an object, at most MaxRaw
	ends     []int64
}

// NewRoot makes a root of pages. It keeps the slice. A file system without bytes has no index.
func NewRoot(pages []PageRef, maxChunk int) (*Root, error) {
	if len(pages) == 0 || len(pages) > MaxPages {
		return nil, fmt.Errorf("index root: %d pages, want 1 to %d", len(pages), MaxPages)
	}
	if maxChunk <= 0 || maxChunk > MaxRaw || maxChunk%BlockSize != 0 {
		return nil, fmt.Errorf("index root: largest chunk of %d bytes", maxChunk)
	}
	r := &Root{Pages: pages, MaxChunk: maxChunk, ends: make([]int64, len(pages))}
	end := int64(0)
	for i, p := range pages {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("index root: page %d: %w", i, err)
		}
		if p.RawSize > math.MaxInt64-end {
			return nil, fmt.Errorf("index root: page %d: the sizes overflow", i)
		}
		end += p.RawSize
		r.ends[i] = end
	}
	return r, nil
}

// RawSize returns the size of the file system in bytes.
func (r *Root) RawSize() int64 { return r.ends[len(r.ends)-1] }

// Find returns the page that covers raw offset off, and the raw offset at which that page starts. off is at
// least 0 and below RawSize, or Find panics.
func (r *Root) Find(off int64) (i int, start int64) {
	if off < 0 || off >= r.RawSize() {
		panic(fmt.Sprintf("index: offset %d outside of %d bytes", off, r.RawSize()))
	}
	i = sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > off })
	return i, r.ends[i] - r.Pages[i].RawSize
}

// DecodePage unpacks and decodes page i from its object's verified bytes, and checks that it matches the root's
// entry.
func (r *Root) DecodePage(d *Decoder, i int, stored []byte) (*Page, error) {
	ref := r.Pages[i]
	if len(stored) != ref.StoredSize {
		return nil, fmt.Errorf("index page %d: %d bytes, the root says %d", i, len(stored), ref.StoredSize)
	}
	raw := make([]byte, ref.PageSize())
	if err := d.Decode(raw, stored, ref.Codec); err != nil {
		return nil, fmt.Errorf("index page %d: %w", i, err)
	}
	p, err := DecodePage(raw)
	if err != nil {
		return nil, fmt.Errorf("index page %d: %w", i, err)
	}
	if p.RawSize() != ref.RawSize {
		return nil, fmt.Errorf("index page %d: covers %d bytes, the root says %d", i, p.RawSize(), ref.RawSize)
	}
	for j, e := range p.Entries {
		if e.Codec != Zero && e.RawSize > r.MaxChunk {
			return nil, fmt.Errorf("index page %d: entry %d: %d bytes, the root allows %d", i, j, e.RawSize, r.MaxChunk)
		}
	}
	return p, nil
}

// Encode returns the root's bytes, which are the object that the manifest names.
func (r *Root) Encode() []byte {
	b := make([]byte, 0, rootHeader+len(r.Pages)*refSize)
	b = append(b, rootMagic...)
	b = append(b, rootFormat, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Pages)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.MaxChunk))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.RawSize()))
	for _, p := range r.Pages {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.RawSize))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.StoredSize))
		b = append(b, byte(p.Codec), byte(p.ID.Algorithm))
		b = binary.LittleEndian.AppendUint16(b, uint16(p.Entries))
		b = append(b, p.ID.Sum[:]...)
	}
	return b
}

// DecodeRoot is the inverse of Root.Encode. It accepts only bytes that Encode would write.
func DecodeRoot(b []byte) (*Root, error) {
	if len(b) < rootHeader || string(b[:4]) != rootMagic {
		return nil, fmt.Errorf("index root: %d bytes that do not start with %q", len(b), rootMagic)
	}
	if b[4] != rootFormat || b[5]|b[6]|b[7] != 0 {
		return nil, fmt.Errorf("index root: unknown format %d", b[4])
	}
	n := int64(binary.LittleEndian.Uint32(b[8:]))
	if int64(len(b)) != rootHeader+n*refSize {
		return nil, fmt.Errorf("index root: %d bytes do not hold %d pages", len(b), n)
	}
	pages := make([]PageRef, 0, n)
	for p := b[rootHeader:]; len(p) > 0; p = p[refSize:] {
		pages = append(pages, readRef(p))
	}
	r, err := NewRoot(pages, int(binary.LittleEndian.Uint32(b[12:])))
	if err != nil {
		return nil, err
	}
	if uint64(r.RawSize()) != binary.LittleEndian.Uint64(b[16:]) {
		return nil, fmt.Errorf("index root: the header says %d raw bytes, the pages %d",
			binary.LittleEndian.Uint64(b[16:]), r.RawSize())
	}
	return r, nil
}

func readRef(b []byte) PageRef {
	return PageRef{
		RawSize:    int64(binary.LittleEndian.Uint64(b)),
		StoredSize: int(binary.LittleEndian.Uint32(b[8:])),
		Codec:      Codec(b[12]),
		Entries:    int(binary.LittleEndian.Uint16(b[14:])),
		ID:         ID{Algorithm: Algorithm(b[13]), Sum: [32]byte(b[16:48])},
	}
}
