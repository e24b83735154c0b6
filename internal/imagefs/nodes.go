package imagefs

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"pando/internal/systree"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Excluded reports whether an image leaves out a path, which is relative to the tree.
func Excluded(rel string) bool { return strings.HasPrefix(rel, "boot/") }

// treeNode is an inode of a file system that this package writes.
type treeNode struct {
	rel    string // one of its names
	number uint32
	kind   int // type, with the number that squashfs uses
	stat   unix.Stat_t
	links  uint32 // number of its names in the image
	size   int64
	target string
	names  []treeName // entries of a directory, in byte order
	attrs  []xattr

	start  int64 // offset of its data
	blocks []uint32
	done   bool // the inode was written
}

type treeName struct {
	name string
	node *treeNode
}

// xattr is one extended attribute.
type xattr struct {
	prefix uint16 // index in the list of supported prefixes
	name   string
	value  []byte
}

// treeScanner reads a tree without /boot, and numbers its inodes from 1.
type treeScanner struct {
	root     string
	prefixes []string // prefixes of the attributes that the file system can store
	nodes    []*treeNode
	lists    []string             // files with attributes that it cannot store
	seen     map[uint64]*treeNode // inodes with several names, by their number in the tree
}

// readTree reads the whole tree. The first node is the root.
func readTree(root string, prefixes []string) (*treeScanner, error) {
	s := &treeScanner{root: root, prefixes: prefixes, seen: map[uint64]*treeNode{}}
	_, err := s.node("")
	return s, err
}

func (s *treeScanner) node(rel string) (*treeNode, error) {
	path := filepath.Join(s.root, rel)
	n := &treeNode{rel: rel}
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
	s.nodes = append(s.nodes, n)
	n.number = uint32(len(s.nodes))
	all, err := systree.Xattrs(path)
	if err == nil {
		n.attrs, err = readXattrs(path, all, s.prefixes)
	}
	if err != nil {
		return nil, fmt.Errorf("attributes of %s: %w", path, err)
	}
	if len(n.attrs) < len(all) {
		s.lists = append(s.lists, rel)
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

func (s *treeScanner) directory(n *treeNode) error {
	entries, err := os.ReadDir(filepath.Join(s.root, n.rel)) // sorted by the bytes of the names
	if err != nil {
		return err
	}
	for _, e := range entries {
		rel := strings.TrimPrefix(n.rel+"/"+e.Name(), "/")
		if Excluded(rel) {
			continue
		}
		child, err := s.node(rel)
		if err != nil {
			return err
		}
		n.names = append(n.names, treeName{e.Name(), child})
	}
	return nil
}

// readXattrs reads the attributes of a file in order of their names. It leaves out those with none of the prefixes.
func readXattrs(path string, names, prefixes []string) ([]xattr, error) {
	var out []xattr
	for _, name := range names {
		i := slices.IndexFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
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
		out = append(out, xattr{uint16(i), strings.TrimPrefix(name, prefixes[i]), value[:size]})
	}
	slices.SortFunc(out, func(a, b xattr) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), strings.Compare(a.name, b.name))
	})
	return out, nil
}
