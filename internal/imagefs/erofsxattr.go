package imagefs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
)

// SortXattrs sorts the extended attributes of each inode. mkfs.erofs before 1.9.3 writes them in the order of the
// tree's file system, so the same tree on ext4 and on tmpfs would give two images.
func SortXattrs(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("sort attributes: %w", err)
	}
	defer f.Close()
	e, err := OpenErofs(f)
	if err != nil {
		return fmt.Errorf("sort attributes: %w", err)
	}
	if err := checkSuper(f); err != nil {
		return fmt.Errorf("sort attributes: %w", err)
	}
	err = e.walk(func(name string, n erofsInode) error {
		if n.xattrs == 0 {
			return nil
		}
		old := make([]byte, n.xattrs)
		if _, err := f.ReadAt(old, n.tail-n.xattrs); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		sorted, err := sortedXattrs(old)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if bytes.Equal(old, sorted) {
			return nil
		}
		_, err = f.WriteAt(sorted, n.tail-n.xattrs)
		return err
	})
	if err == nil {
		err = sealSuper(f)
	}
	if err != nil {
		return fmt.Errorf("sort attributes: %w", err)
	}
	return f.Close()
}

// Sizes of parts of an inode's extended attributes, in bytes (struct erofs_xattr_ibody_header, erofs_xattr_entry).
const (
	ErofsXattrHeader = 12 // name filter (4), shared attributes (1), zeros (7)
	ErofsXattrEntry  = 4  // name length (1), name prefix (1), value length (2), then name and value
)

// sortedXattrs returns the attributes of one inode sorted by the number of the name prefix, then by the rest of the
// name.
func sortedXattrs(b []byte) ([]byte, error) {
	if len(b) < ErofsXattrHeader || b[4] != 0 {
		return nil, errors.New("it has shared attributes")
	}
	var entries [][]byte
	rest := b[ErofsXattrHeader:]
	for len(rest) > 0 {
		if len(rest) < ErofsXattrEntry {
			return nil, errors.New("its attributes are cut off")
		}
		n := ErofsXattrEntry + int(rest[0]) + int(binary.LittleEndian.Uint16(rest[2:]))
		if n = (n + 3) / 4 * 4; n > len(rest) {
			return nil, errors.New("its attributes are cut off")
		}
		entries, rest = append(entries, rest[:n]), rest[n:]
	}
	slices.SortStableFunc(entries, func(x, y []byte) int {
		return cmp.Or(cmp.Compare(x[1], y[1]), bytes.Compare(x[4:4+x[0]], y[4:4+y[0]]))
	})
	return append(slices.Clone(b[:ErofsXattrHeader]), bytes.Join(entries, nil)...), nil
}

// superChecksum computes and reads the super block's checksum: a CRC-32C without the final inversion. It covers the
// first block from the super block on, with its own four bytes as zero. Inodes may lie in that block too.
func superChecksum(f *os.File) (sum, stored uint32, err error) {
	block := make([]byte, 4096-erofsSuperOffset)
	if _, err := f.ReadAt(block, erofsSuperOffset); err != nil {
		return 0, 0, err
	}
	stored = binary.LittleEndian.Uint32(block[4:])
	clear(block[4:8])
	return ^crc32.Checksum(block, crc32.MakeTable(crc32.Castagnoli)), stored, nil
}

func checkSuper(f *os.File) error {
	sum, stored, err := superChecksum(f)
	if err == nil && sum != stored {
		err = fmt.Errorf("the super block's checksum is %08x, not %08x", stored, sum)
	}
	return err
}

func sealSuper(f *os.File) error {
	sum, stored, err := superChecksum(f)
	if err != nil || sum == stored {
		return err
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, sum), erofsSuperOffset+4)
	return err
}
