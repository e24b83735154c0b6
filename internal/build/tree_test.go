package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// node is one file of a test tree.
type node struct {
	path   string
	mode   uint32 // with type bits
	data   []byte
	size   int64  // of a sparse file: data lies at its end
	target string // of a symbolic link, or the path that a hard link is another name of
	hard   bool
	dev    uint64
	uid    int
	gid    int // 0: as uid
	xattrs map[string]string
	mtime  unix.Timespec
}

// awkwardTree lists files of every kind that a root file system may have.
func awkwardTree() []node {
	rng := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	nodes := []node{
		{path: "boot", mode: unix.S_IFDIR | 0o755},
		{path: "boot/vmlinuz-6.1.0-test", mode: unix.S_IFREG | 0o600, data: fakeKernel("6.1.0-test")},
		{path: "boot/grub", mode: unix.S_IFDIR | 0o755},
		{path: "boot/grub/grub.cfg", mode: unix.S_IFREG | 0o644, data: []byte("never booted")},
		{path: "usr/lib/modules/6.1.0-test/kernel/x.ko", mode: unix.S_IFREG | 0o644, data: []byte("module")},
		{path: "opt/boot/kept", mode: unix.S_IFREG | 0o644, data: []byte("not the top one")},
		{path: "empty", mode: unix.S_IFREG | 0o644},
		{path: "secret", mode: unix.S_IFREG, data: []byte("mode 0")},
		{path: "bin/su", mode: unix.S_IFREG | 0o4755, data: random(70000)},
		{path: "bin/ping", mode: unix.S_IFREG | 0o755, data: random(33000), xattrs: map[string]string{
			"security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		}},
		{path: "tmp", mode: unix.S_IFDIR | 0o1777},
		{path: "var/mail", mode: unix.S_IFDIR | 0o2775, uid: 8},
		{path: "srv/acl", mode: unix.S_IFDIR | 0o755, xattrs: map[string]string{
			"system.posix_acl_access": acl(), "system.posix_acl_default": acl(), "user.b": "two", "user.a": "one", "trusted.z": "",
		}},
		{path: "srv/acl/file", mode: unix.S_IFREG | 0o644, data: []byte("x"), xattrs: map[string]string{
			"system.posix_acl_access": acl(), "user.long": strings.Repeat("v", 3000),
		}},
		{path: "dev/null", mode: unix.S_IFCHR | 0o666, dev: unix.Mkdev(1, 3)},
		{path: "dev/sdz", mode: unix.S_IFBLK | 0o660, dev: unix.Mkdev(65, 144)},
		{path: "dev/big", mode: unix.S_IFCHR | 0o600, dev: unix.Mkdev(300, 70000)},
		{path: "run/fifo", mode: unix.S_IFIFO | 0o600},
		{path: "run/socket", mode: unix.S_IFSOCK | 0o755},
		{path: "lib", mode: unix.S_IFLNK | 0o777, target: "usr/lib"},
		{path: "dangling", mode: unix.S_IFLNK | 0o777, target: "/" + strings.Repeat("nowhere/", 500)},
		{path: "hard/one", mode: unix.S_IFREG | 0o644, data: random(9000)},
		{path: "zz/two", hard: true, target: "hard/one"},
		{path: "aa/three", hard: true, target: "hard/one"},
		{path: "sparse", mode: unix.S_IFREG | 0o644, size: 40 << 20, data: []byte("the end")},
		{path: "large", mode: unix.S_IFREG | 0o644, data: random(3<<20 + 17)},
		{path: "same/a", mode: unix.S_IFREG | 0o644, data: make([]byte, 100)},
		{path: "high", mode: unix.S_IFREG | 0o644, data: []byte("x"), uid: 1 << 20},
		{path: "old", mode: unix.S_IFREG | 0o644, data: []byte("x"), mtime: unix.Timespec{Sec: 86400, Nsec: 7}},
		{
			path:  "newest",
			mode:  unix.S_IFREG | 0o644,
			data:  []byte("x"),
			mtime: unix.Timespec{Sec: 1760000000, Nsec: 999999999},
		},
	}
	for _, name := range []string{
		"new\nline", "tab\tand space", "-rf", "quote'\"`$(x)", `back\slash`, "\xff\xfe not utf-8", "ümläut", "n\x01",
		strings.Repeat("l", 254), "boot\nx", "*", ".hidden",
	} {
		nodes = append(nodes, node{path: "odd/" + name, mode: unix.S_IFREG | 0o644, data: []byte(name)})
	}
	nodes = append(
		nodes,
		node{path: strings.Repeat("deep/", 60) + "file", mode: unix.S_IFREG | 0o644, data: []byte("down")},
	)
	for i := range 700 { // a directory of several blocks; small files to be grouped; shared attributes
		n := node{
			path: fmt.Sprintf("many/file-with-a-name-%04d", i),
			mode: unix.S_IFREG | 0o644,
			data: random(rng.IntN(12000)),
		}
		if i%50 == 0 {
			n.xattrs = map[string]string{"user.shared": "the same", "user.other": "too"}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// acl is a POSIX ACL as its extended attribute holds it: version 2, then tag, permissions, id.
func acl() string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 6, 1<<32 - 1}, {2, 7, 1000}, {4, 4, 1<<32 - 1}, {16, 7, 1<<32 - 1}, {32, 4, 1<<32 - 1}} {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return string(b)
}

// fakeKernel is a file with the header of an x86 kernel image.
func fakeKernel(release string) []byte {
	b := make([]byte, 40000)
	copy(b[0x202:], "HdrS")
	b[0x1f1] = 4
	binary.LittleEndian.PutUint32(b[0x1f4:], uint32((len(b)-5*512)/16))
	binary.LittleEndian.PutUint16(b[0x20e:], 0x1000)
	copy(b[0x1200:], release+" (builder@host) #1 SMP\x00")
	return b
}

// makeTree makes the files in the order of nodes; hard links and times come last.
func makeTree(t *testing.T, root string, nodes []node) {
	t.Helper()
	old := unix.Umask(0)
	defer unix.Umask(old)
	check := func(n node, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make %q: %v", n.path, err)
		}
	}
	for _, n := range nodes {
		if !n.hard {
			check(n, os.MkdirAll(filepath.Dir(filepath.Join(root, n.path)), 0o755))
			check(n, makeNode(filepath.Join(root, n.path), n))
		}
	}
	for _, n := range nodes {
		if n.hard {
			check(n, os.MkdirAll(filepath.Dir(filepath.Join(root, n.path)), 0o755))
			check(n, os.Link(filepath.Join(root, n.target), filepath.Join(root, n.path)))
		}
	}
	times := map[string]unix.Timespec{}
	for _, n := range nodes {
		times[n.path] = n.mtime
	}
	check(node{path: "times"}, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		when := times[strings.TrimPrefix(strings.TrimPrefix(path, root), "/")]
		if when.Sec == 0 {
			when = unix.Timespec{Sec: 1700000000 + int64(len(path)-len(root)), Nsec: 123456789}
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

func makeNode(path string, n node) error {
	var err error
	switch n.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = os.Mkdir(path, 0o700); os.IsExist(err) {
			err = nil
		}
	case unix.S_IFLNK:
		err = os.Symlink(n.target, path)
	case unix.S_IFREG:
		err = writeSparse(path, n)
	default:
		err = unix.Mknod(path, n.mode, int(n.dev))
	}
	if err == nil {
		err = os.Lchown(path, n.uid, cmp.Or(n.gid, n.uid))
	}
	if err == nil && n.mode&unix.S_IFMT != unix.S_IFLNK {
		err = unix.Chmod(path, n.mode&0o7777)
	}
	for k, v := range n.xattrs { // in the order of a map: another one each time
		if err == nil {
			if err = unix.Lsetxattr(path, k, []byte(v), 0); err != nil {
				err = fmt.Errorf("attribute %s: %w", k, err)
			}
		}
	}
	return err
}

func writeSparse(path string, n node) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(n.data, max(0, n.size-int64(len(n.data))))
	return err
}

// describe lists a tree: one line for each name with all that must survive. What is below boot is left out.
func describe(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	first := map[uint64]string{} // the first name of a file with several
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if strings.HasPrefix(rel, "boot/") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		line, err := describeFile(path, rel, first)
		out = append(out, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func describeFile(path, rel string, first map[uint64]string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	line := fmt.Sprintf("%q %o %d:%d %d.%09d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return "", err
		}
		line += fmt.Sprintf(" %d bytes %x", st.Size, h.Sum(nil)[:8])
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		line += fmt.Sprintf(" -> %q", target)
	case unix.S_IFCHR, unix.S_IFBLK:
		line += fmt.Sprintf(" device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if first[st.Ino] == "" {
			first[st.Ino] = rel
		}
		line += fmt.Sprintf(", %d links with %q", st.Nlink, first[st.Ino])
	}
	attrs, err := xattrsOf(path)
	return line + attrs, err
}

func xattrsOf(path string) (string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return "", fmt.Errorf("list attributes of %q: %w", path, err)
	}
	names := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		if name == "" || name == "security.selinux" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return "", fmt.Errorf("attribute %s of %q: %w", name, path, err)
		}
		fmt.Fprintf(&out, " %s=%x", name, value[:n])
	}
	return out.String(), nil
}
