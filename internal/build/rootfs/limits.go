package rootfs

import (
	"fmt"
	"pando/internal/imagefs"
	"pando/internal/systree"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of an image. A tree that exceeds one is refused by the scan, because a later error could not name the file.
const (
	// MaxTreeDepth is how many directories deep a file may lie in the tree. fsck.erofs 1.5 uses 13 KB of its 8 MB
	// stack for each.
	MaxTreeDepth = 256

	MaxXattr  = 1<<16 - 1        // bytes of one attribute's value: EROFS stores its length in 16 bits
	maxXattrs = 12 + (1<<16-2)*4 // bytes of a file's attributes: EROFS counts them in 16 bits, in units of four
	maxPath   = unix.PathMax - 1 // bytes of a path that Linux can open
)

// checkPath returns an error for a path that is too deep or too long for the programs of a build.
func checkPath(path, rel string) error {
	if depth := strings.Count(rel, "/"); depth > MaxTreeDepth {
		return fmt.Errorf(
			"%s lies below %d directories, an image takes %d: move it up, or out of the tree",
			systree.Shown(rel),
			depth,
			MaxTreeDepth,
		)
	}
	if len(path) > maxPath {
		return fmt.Errorf(
			"%s is a path of %d bytes, Linux opens %d: shorten it, or move it out of the tree",
			systree.Shown(path),
			len(path),
			maxPath,
		)
	}
	return nil
}

// addXattrs returns an error if an inode of EROFS has no room for a file's extended attributes, because mkfs.erofs
// would truncate them. It counts the attributes that do not go into an image.
func (s *Scan) addXattrs(path, rel string) error {
	names, err := systree.Xattrs(path)
	if err != nil {
		return fmt.Errorf("list attributes of %q: %w", rel, err)
	}
	total := 0
	for _, name := range names {
		if systree.ForeignXattr(name) {
			if s.Foreign++; s.Foreign == 1 {
				s.ForeignName = name + " of /" + rel
			}
			continue
		}
		size, err := unix.Lgetxattr(path, name, nil)
		if err != nil {
			return fmt.Errorf("attribute %s of %q: %w", name, rel, err)
		}
		if size > MaxXattr {
			return fmt.Errorf(
				"%q: attribute %s has %d bytes, EROFS holds %d: remove it with setfattr -x",
				rel,
				name,
				size,
				MaxXattr,
			)
		}
		total += (imagefs.ErofsXattrEntry + len(name) + size + 3) / 4 * 4
	}
	if total > maxXattrs-imagefs.ErofsXattrHeader {
		return fmt.Errorf(
			"%q: its %d attributes have %d bytes, EROFS holds %d: remove some with setfattr -x",
			rel,
			len(names),
			total,
			maxXattrs,
		)
	}
	return nil
}

// Warnings lists what an image cannot keep of the tree. mkfs.erofs compares times as unsigned numbers: it takes times
// before 1970 for later than the super block's time, and clamps them to that.
func (s Scan) Warnings() []string {
	if s.Early == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("%s is from before 1970, as are %d files in all; mkfs.erofs cannot write such times, in the image "+
			"they are from %s: give them another time with touch", systree.Shown(s.EarlyName), s.Early,
			time.Unix(s.Newest+1, 0).UTC().Format(time.DateTime)),
	}
}
