package build

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// squashNode is an inode to be.
type squashNode struct {
	rel    string // one of its names
	number uint32
	kind   int // type of the basic inode
	stat   unix.Stat_t
	links  uint32 // its names in the image
	size   int64
	target string
	names  []squashName // of a directory, in byte order
	attrs  []xattr

	start  int64 // of its data
	blocks []uint32
	done   bool // the inode is written
}

type squashName struct {
	name string
	node *squashNode
}

// xattr is one extended attribute.
type xattr struct {
	prefix uint16 // user., trusted., security.
	name   string
	value  []byte
}

// scan reads the tree, without what is below /boot, and numbers the inodes.
func (w *squashWriter) scan() (*squashNode, error) {
	s := &squashScan{w: w, seen: map[uint64]*squashNode{}}
	return s.node("")
}

type squashScan struct {
	w    *squashWriter
	seen map[uint64]*squashNode // by inode of the tree, those with several names
}

func (s *squashScan) node(rel string) (*squashNode, error) {
	path := filepath.Join(s.w.root, rel)
	n := &squashNode{rel: rel}
	if err := unix.Lstat(path, &n.stat); err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	directory := n.stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if known := s.seen[n.stat.Ino]; known != nil && !directory {
		known.links++
		return known, nil
	}
	n.links = 1
	if n.stat.Nlink > 1 && !directory {
		s.seen[n.stat.Ino] = n
	}
	s.w.nodes = append(s.w.nodes, n)
	n.number = uint32(len(s.w.nodes))
	all, err := listXattrs(path)
	if err == nil {
		n.attrs, err = readXattrs(path, all)
	}
	if err != nil {
		return nil, fmt.Errorf("attributes of %s: %w", path, err)
	}
	if len(n.attrs) < len(all) {
		s.w.lists = append(s.w.lists, rel)
	}
	if n.stat.Mtim.Sec != int64(squashTime(n.stat.Mtim.Sec)) {
		s.w.late = append(s.w.late, rel)
	}
	switch n.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		n.kind = squashDir
		return n, s.directory(n)
	case unix.S_IFREG:
		n.kind, n.size = squashFile, n.stat.Size
	case unix.S_IFLNK:
		n.kind = squashLink
		n.target, err = os.Readlink(path)
	case unix.S_IFBLK:
		n.kind = squashBlockDevice
	case unix.S_IFCHR:
		n.kind = squashCharDevice
	case unix.S_IFIFO:
		n.kind = squashFifo
	default:
		n.kind = squashSocket
	}
	return n, err
}

func (s *squashScan) directory(n *squashNode) error {
	entries, err := os.ReadDir(filepath.Join(s.w.root, n.rel)) // in order of their names' bytes
	if err != nil {
		return err
	}
	for _, e := range entries {
		rel := strings.TrimPrefix(n.rel+"/"+e.Name(), "/")
		if excluded(rel) {
			continue
		}
		child, err := s.node(rel)
		if err != nil {
			return err
		}
		n.names = append(n.names, squashName{e.Name(), child})
	}
	return nil
}

// squashPrefixes are the attributes that squashfs holds.
var squashPrefixes = []string{"user.", "trusted.", "security."}

// readXattrs reads the attributes of a file, in order of their names. Those that squashfs does not hold are left out.
func readXattrs(path string, names []string) ([]xattr, error) {
	var out []xattr
	for _, name := range names {
		i := slices.IndexFunc(squashPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if i < 0 {
			continue
		}
		size, err := unix.Lgetxattr(path, name, nil)
		if err != nil {
			return nil, err
		}
		value := make([]byte, size)
		if size, err = unix.Lgetxattr(path, name, value); err != nil {
			return nil, err
		}
		out = append(out, xattr{uint16(i), strings.TrimPrefix(name, squashPrefixes[i]), value[:size]})
	}
	slices.SortFunc(out, func(a, b xattr) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), strings.Compare(a.name, b.name))
	})
	return out, nil
}

// lost says what of the tree is not in the image.
func (w *squashWriter) lost() []string {
	var out []string
	if n := len(w.lists); n > 0 {
		out = append(out, fmt.Sprintf("%s has an access list or another attribute that squashfs has no room for, as have %d files in all; "+
			"the image is without: use --format erofs if its kernel can", shown("/"+w.lists[0]), n))
	}
	if n := len(w.late); n > 0 {
		out = append(out, fmt.Sprintf("%s has a time that squashfs has no room for (1970 to 2106), as have %d files in all", shown("/"+w.late[0]), n))
	}
	return out
}
