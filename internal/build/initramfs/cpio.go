package initramfs

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"path/filepath"
)

// File type bits of a cpio mode, as in inode(7).
const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

// cpio writes an archive in the "newc" form, which the kernel unpacks as initramfs (Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst). Owner, time and inode numbers are fixed, so that two
// runs give the same bytes. The kernel makes no missing parent directories, so the writer adds them.
type cpio struct {
	buf   bytes.Buffer
	inode int
	dirs  map[string]bool
	err   error
}

func newCPIO() *cpio { return &cpio{dirs: map[string]bool{".": true}} }

// dir adds a directory and its parents, each once.
func (c *cpio) dir(name string, perm uint32) {
	if c.dirs[name] {
		return
	}
	c.dirs[name] = true
	c.entry(name, modeDir|perm, nil)
}

// file adds a regular file.
func (c *cpio) file(name string, perm uint32, data []byte) {
	c.entry(name, modeFile|perm, data)
}

// symlink adds a symbolic link to target.
func (c *cpio) symlink(name, target string) {
	c.entry(name, modeLink|0o777, []byte(target))
}

func (c *cpio) entry(name string, mode uint32, data []byte) {
	if len(data) > math.MaxUint32 {
		c.err = fmt.Errorf("cpio: %s has %d bytes, more than the format can say (4 GiB)", name, len(data))
		return
	}
	if name == "" || !filepath.IsLocal(name) || path.Clean(name) != name {
		c.err = fmt.Errorf("cpio: %q is not a clean relative name", name)
		return
	}
	c.dir(path.Dir(name), 0o755)
	c.inode++
	c.header(c.inode, mode, len(data), name)
	c.buf.Write(data)
	c.pad()
}

// header writes the 110 bytes of the header and the name, padded to four bytes.
func (c *cpio) header(inode int, mode uint32, size int, name string) {
	links := 1
	if mode&modeDir != 0 && mode&modeFile == 0 {
		links = 2
	}
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}

// bytes ends the archive and returns it. Its length is a multiple of four.
func (c *cpio) bytes() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	c.header(0, 0, 0, "TRAILER!!!")
	return c.buf.Bytes(), nil
}
