package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"pando/internal/imagefs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Scan is the result of looking through a tree. Everything below /boot is left out: the kernel is an object of its
// own, and the other files serve boot loaders, which a node does not have.
type Scan struct {
	Files       int64  // of all types; each hard link counts
	Bytes       int64  // of regular files, rounded up to blocks; each inode counts once
	Newest      int64  // newest modification time, Unix seconds
	LongName    string // a path whose last element has 255 bytes, the maximum of Linux; "" none
	Early       int64  // files from before 1970, all types
	EarlyName   string // the first such file
	Fingerprint string

	Holes    int64  // bytes of holes in regular files
	HoleName string // the file with the largest holes
	holes    int64  // bytes of holes in HoleName

	Foreign     int64  // attributes of the tree's own file system, which an image does not store
	ForeignName string // the first such attribute, with its file
}

// ScanTree lists a tree without changing it. The fingerprint covers names, types, owners, sizes and times: if two
// scans have the same one, the tree did not change in between.
func ScanTree(ctx context.Context, root string, each func(files int64)) (Scan, error) {
	var s Scan
	var top unix.Stat_t
	if err := unix.Stat(root, &top); err != nil {
		return s, fmt.Errorf("look through %s: %w", root, err)
	}
	if top.Mode&unix.S_IFMT != unix.S_IFDIR {
		return s, fmt.Errorf("look through %s: not a directory", root)
	}
	hash := sha256.New()
	seen := map[uint64]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if imagefs.Excluded(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err := checkPath(path, rel); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		if st.Dev != top.Dev {
			return fmt.Errorf(
				"%s is a mount point; an image is made of one file system: unmount it, or copy the tree",
				path,
			)
		}
		if err := s.addXattrs(path, rel); err != nil {
			return err
		}
		s.add(&st, seen, rel)
		if st.Mtim.Sec < 0 {
			if s.Early++; s.Early == 1 {
				s.EarlyName = "/" + rel
			}
		}
		if len(d.Name()) == 255 {
			s.LongName = rel
		}
		_ = binary.Write(
			hash,
			binary.LittleEndian,
			[]int64{int64(len(rel)), int64(st.Mode), int64(st.Uid), int64(st.Gid),
				int64(st.Rdev), st.Size, st.Mtim.Nano(), st.Ctim.Nano(), int64(st.Ino)},
		) // a hash never returns an error
		hash.Write([]byte(rel))
		if s.Files%1000 == 0 {
			each(s.Files)
		}
		return nil
	})
	s.Fingerprint = hex.EncodeToString(hash.Sum(nil))
	if err != nil {
		return s, fmt.Errorf("look through the tree: %w", err)
	}
	return s, nil
}

func (s *Scan) add(st *unix.Stat_t, seen map[uint64]bool, rel string) {
	s.Files++
	s.Newest = max(s.Newest, st.Mtim.Sec)
	if st.Mode&unix.S_IFMT == unix.S_IFREG && !seen[st.Ino] {
		s.Bytes += imagefs.InBlocks(st.Size)
		if holes := imagefs.InBlocks(st.Size) - st.Blocks*512; holes > 0 {
			if s.Holes += holes; holes > s.holes {
				s.holes, s.HoleName = holes, rel
			}
		}
		seen[st.Ino] = st.Nlink > 1
	}
}
