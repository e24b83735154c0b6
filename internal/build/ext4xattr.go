package build

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"pando/internal/chunk"
)

const (
	ext4XattrMagic = 0xEA020000
	ext4XattrEntry = 16 // bytes before the name
	ext4XattrHead  = 32 // of a block
)

// ext4Names are the numbers that ext4 has for prefixes of names, by their place in ext4Prefixes.
var ext4Names = [...]uint8{1, 2, 3, 4, 6}

// ext4Attributes puts the attributes of an inode into its free bytes, or else all of them into a block.
func ext4Attributes(attrs []xattr) (inner, outer []byte, err error) {
	if len(attrs) == 0 {
		return nil, nil, nil
	}
	attrs = slices.Clone(attrs)
	for i, a := range attrs {
		if name := ext4Prefixes[a.prefix]; name == ext4ACL || name == ext4DefaultACL {
			if attrs[i].value, err = ext4List(a.value); err != nil {
				return nil, nil, fmt.Errorf("attribute %s: %w", name, err)
			}
		}
	}
	// The kernel stops looking in a block where this order says that a name cannot come any more.
	slices.SortFunc(attrs, func(a, b xattr) int {
		return cmp.Or(
			cmp.Compare(ext4Names[a.prefix], ext4Names[b.prefix]),
			cmp.Compare(len(a.name), len(b.name)),
			strings.Compare(a.name, b.name),
		)
	})
	inner = binary.LittleEndian.AppendUint32(nil, ext4XattrMagic)
	if entries, _, ok := ext4Entries(attrs, ext4InnerSize-len(inner), 0); ok {
		return append(inner, entries...), nil, nil
	}
	entries, hash, ok := ext4Entries(attrs, chunk.BlockSize-ext4XattrHead, ext4XattrHead)
	if !ok {
		return nil, nil, fmt.Errorf(
			"its %d attributes have more than the %d bytes that ext4 has room for: remove some with setfattr -x",
			len(attrs),
			chunk.BlockSize-ext4XattrHead,
		)
	}
	head := fields(uint32(ext4XattrMagic), uint32(1), uint32(1), hash, [4]uint32{})
	return nil, append(head, entries...), nil
}

// ext4Entries are entries from the front and values from the back of some bytes, which lie at an offset from where
// values are counted. The hash is that of a block.
func ext4Entries(attrs []xattr, size, offset int) (b []byte, hash uint32, ok bool) {
	b = make([]byte, size)
	at, end := 0, size
	for _, a := range attrs {
		length := (len(a.value) + 3) / 4 * 4
		next := at + ext4XattrEntry + (len(a.name)+3)/4*4
		if end -= length; next+4 > end { // four bytes of zeros end the entries
			return nil, 0, false
		}
		place := end + offset
		if len(a.value) == 0 {
			place = 0
		}
		own := ext4Hash(a)
		copy(
			b[at:],
			fields(uint8(len(a.name)), ext4Names[a.prefix], uint16(place), uint32(0), uint32(len(a.value)), own),
		)
		copy(b[at+ext4XattrEntry:], a.name)
		copy(b[end:], a.value)
		at, hash = next, hash<<16^hash>>16^own
	}
	return b, hash, true
}

// ext4Hash is the hash of an entry: fs/ext4/xattr.c, ext4_xattr_hash_entry.
func ext4Hash(a xattr) uint32 {
	hash := uint32(0)
	for _, c := range []byte(a.name) {
		hash = hash<<5 ^ hash>>27 ^ uint32(c)
	}
	padded := append(bytes.Clone(a.value), make([]byte, 3)...)
	for i := 0; i < len(a.value); i += 4 {
		hash = hash<<16 ^ hash>>16 ^ binary.LittleEndian.Uint32(padded[i:])
	}
	return hash
}

// ext4List makes an ACL, which the kernel gives as entries of 8 bytes, one as ext4 has it: only users and groups
// have numbers.
func ext4List(value []byte) ([]byte, error) {
	const version, entry, named = 2, 8, 0x02 | 0x08
	le := binary.LittleEndian
	if len(value) < 4 || le.Uint32(value) != version || (len(value)-4)%entry != 0 {
		return nil, fmt.Errorf("an ACL of %d bytes that is none", len(value))
	}
	out := fields(uint32(1))
	for e := value[4:]; len(e) > 0; e = e[entry:] {
		if out = append(out, e[:4]...); le.Uint16(e)&named != 0 {
			out = append(out, e[4:entry]...)
		}
	}
	return out, nil
}
