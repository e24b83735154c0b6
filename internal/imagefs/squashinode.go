package imagefs

import (
	"fmt"
	"pando/internal/systree"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// inode writes an inode after the inodes that it refers to, and records its position.
func (w *squashWriter) inode(n *treeNode, parent uint32) error {
	if n.done {
		return nil
	}
	n.done = true
	for _, c := range n.names {
		if err := w.inode(c.node, n.number); err != nil {
			return err
		}
	}
	uid, err := w.id(n.stat.Uid)
	if err != nil {
		return err
	}
	gid, err := w.id(n.stat.Gid)
	if err != nil {
		return err
	}
	attrs, err := w.attributes(n.attrs)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(w.root, n.rel), err)
	}
	kind, body, err := w.body(n, parent, attrs)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(w.root, n.rel), err)
	}
	w.refs[n.number-1] = w.inodes.place()
	w.inodes.add(fields(uint16(kind), uint16(n.stat.Mode&0o7777), uid, gid, squashTime(n.stat.Mtim.Sec), n.number))
	w.inodes.add(body)
	return nil
}

// squashTime limits a time to the range of squashfs: 32 bits, unsigned.
func squashTime(sec int64) uint32 { return uint32(max(0, min(sec, 1<<32-1))) }

// id returns the index of an owner or group in the ID table.
func (w *squashWriter) id(id uint32) (uint16, error) {
	i, ok := w.idIndex[id]
	if ok {
		return i, nil
	}
	if len(w.ids) > 1<<16-1 {
		return 0, fmt.Errorf("more than %d owners and groups, which squashfs has no room for", 1<<16)
	}
	i = uint16(len(w.ids))
	w.idIndex[id], w.ids = i, append(w.ids, id)
	return i, nil
}

// body returns the type of an inode, and its bytes after the common header.
func (w *squashWriter) body(n *treeNode, parent, attrs uint32) (kind int, body []byte, err error) {
	links, extended := n.links, attrs != squashNone
	switch n.kind {
	case squashDir:
		return w.dirBody(n, parent, attrs)
	case squashFile:
		if !extended && links == 1 && n.start < 1<<32 && n.size < 1<<32 {
			return squashFile, append(
				fields(uint32(n.start), uint32(squashNone), uint32(0), uint32(n.size)),
				fields(n.blocks)...), nil
		}
		body = fields(uint64(n.start), uint64(n.size), uint64(0), links, uint32(squashNone), uint32(0), attrs)
		return squashFile + squashExtended, append(body, fields(n.blocks)...), nil
	case squashLink:
		body = append(fields(links, uint32(len(n.target))), n.target...)
	case squashBlockDevice, squashCharDevice:
		major, minor := unix.Major(n.stat.Rdev), unix.Minor(n.stat.Rdev)
		body = fields(links, minor&0xff|major<<8|minor&^0xff<<12)
	default:
		body = fields(links)
	}
	if extended {
		return n.kind + squashExtended, append(body, fields(attrs)...), nil
	}
	return n.kind, body, nil
}

// maxListing is the largest directory with a basic inode, in bytes. squashfs adds three to the size, for "." and
// "..", which are not written.
const maxListing = 1<<16 - 4

func (w *squashWriter) dirBody(n *treeNode, parent, attrs uint32) (kind int, body []byte, err error) {
	at := w.dirs.place()
	size, subdirs := w.listing(n)
	block, offset, links := uint32(at>>16), uint16(at), uint32(2+subdirs)
	if size <= maxListing && attrs == squashNone {
		return squashDir, fields(block, links, uint16(size+3), offset, parent), nil
	}
	return squashDir + squashExtended, fields(links, uint32(size+3), block, parent, uint16(0), offset, attrs), nil
}

// maxRun is how many entries may follow one header.
const maxRun = 256

// listing writes the entries of a directory: headers, each followed by the entries whose inodes are in one metadata
// block and have numbers near that of the header.
func (w *squashWriter) listing(n *treeNode) (size, subdirs int) {
	put := func(b []byte) {
		w.dirs.add(b)
		size += len(b)
	}
	for left := n.names; len(left) > 0; {
		block, base := w.refs[left[0].node.number-1]>>16, left[0].node.number
		run := 0
		for run < min(len(left), maxRun) {
			c := left[run].node
			delta := int64(c.number) - int64(base)
			if w.refs[c.number-1]>>16 != block || delta < -1<<15 || delta >= 1<<15 {
				break
			}
			run++
		}
		put(fields(uint32(run-1), uint32(block), base))
		for _, c := range left[:run] {
			put(
				append(
					fields(
						uint16(w.refs[c.node.number-1]),
						int16(int64(c.node.number)-int64(base)),
						uint16(c.node.kind),
						uint16(len(c.name)-1),
					),
					c.name...),
			)
			if c.node.kind == squashDir {
				subdirs++
			}
		}
		left = left[run:]
	}
	return size, subdirs
}

// attributes writes the attributes of an inode and returns their index in the attribute table.
func (w *squashWriter) attributes(attrs []xattr) (uint32, error) {
	if len(attrs) == 0 {
		return squashNone, nil
	}
	at, size := w.xattrs.place(), 0
	for _, a := range attrs {
		b := append(fields(a.prefix, uint16(len(a.name))), a.name...)
		b = append(append(b, fields(uint32(len(a.value)))...), a.value...)
		w.xattrs.add(b)
		size += len(b)
	}
	w.xattrIDs.add(fields(at, uint32(len(attrs)), uint32(size)))
	w.xattrCount++
	return w.xattrCount - 1, nil
}

// squashPrefixes are the prefixes of the attributes that squashfs can store.
var squashPrefixes = []string{"user.", "trusted.", "security."}

// lost reports what the image does not keep of the tree.
func (w *squashWriter) lost() []string {
	var out []string
	if n := len(w.lists); n > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"%s has an access list or another attribute that squashfs has no room for, as have %d files in all; "+
					"the image is without: use --format erofs if its kernel can",
				systree.Shown("/"+w.lists[0]),
				n,
			),
		)
	}
	late := slices.DeleteFunc(
		slices.Clone(w.nodes),
		func(n *treeNode) bool { return n.stat.Mtim.Sec == int64(squashTime(n.stat.Mtim.Sec)) },
	)
	if len(late) > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"%s has a time that squashfs has no room for (1970 to 2106), as have %d files in all",
				systree.Shown("/"+late[0].rel),
				len(late),
			),
		)
	}
	return out
}
