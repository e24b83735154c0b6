package build

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// mountAt mounts something until the test ends, or skips.
func mountAt(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("this machine does not mount it (%v: %s)", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// compareTrees reports the files in which two trees, as describe lists them, differ.
func compareTrees(t *testing.T, got, want []string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lost or changed: %.2000s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not in the tree:  %.2000s", line)
		}
	}
}

// fakeModule is the least that debug/elf reads as a module: a header and .modinfo.
func fakeModule(t *testing.T, info ...string) []byte {
	t.Helper()
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	modinfo := []byte(strings.Join(info, "\x00") + "\x00")
	const header = 64
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: header,
		Shoff: uint64(header + len(modinfo) + len(names)), Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	sections := []elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(len(modinfo))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(header + len(modinfo)), Size: uint64(len(names))}}
	for _, part := range []any{h, modinfo, names, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// fakeTree is a tree with a handful of modules, as Debian lays them out.
func fakeTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "lib/modules", testRelease)
	put := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("kernel/nbd.ko", fakeModule(t, "license=GPL"))
	put("kernel/erofs.ko", fakeModule(t, "depends=libcrc32c"))
	put("kernel/overlay.ko", fakeModule(t))
	put("kernel/libcrc32c.ko", fakeModule(t, "softdep=pre: crc32c"))
	put("kernel/crc32c_generic.ko", fakeModule(t, "alias=crc32c", "alias=crypto-crc32c"))
	put("kernel/r8169.ko", fakeModule(t, "depends=libphy", "softdep=pre: realtek", "firmware=rtl_nic/a.fw",
		"firmware=rtl_nic/missing.fw", "firmware=../../etc/passwd", "alias=pci:v000010ECd00008168sv*sd*bc*sc*i*"))
	put("kernel/libphy.ko", fakeModule(t))
	put("kernel/realtek.ko", fakeModule(t, "depends=libphy"))
	put("kernel/xhci-pci.ko", fakeModule(t, "alias=pci:v*d*sv*sd*bc0Csc03i30*"))
	put("kernel/asix.ko", fakeModule(t, "depends=libphy", "alias=usb:v0B95p772Ad*"))
	put("kernel/sound.ko", fakeModule(t, "alias=pci:*"))
	put("modules.builtin", []byte("kernel/net/packet/af_packet.ko\nkernel/virtio_pci.ko\n"))
	return root
}

// depmod writes what the tool would have written for fakeTree.
func depmod(t *testing.T, root string) {
	t.Helper()
	for name, text := range map[string]string{
		"modules.dep": "kernel/nbd.ko:\nkernel/erofs.ko: " +
			"kernel/libcrc32c.ko\nkernel/overlay.ko:\nkernel/libcrc32c.ko:\n" +
			"kernel/crc32c_generic.ko:\nkernel/r8169.ko: kernel/libphy.ko\nkernel/libphy.ko:\n" +
			"kernel/realtek.ko: kernel/libphy.ko\nkernel/sound.ko:\nkernel/xhci-pci.ko:\nkernel/asix.ko: " +
			"kernel/libphy.ko\n",
		"modules.alias": "# Aliases\nalias crc32c crc32c_generic\nalias crypto-crc32c crc32c_generic\n" +
			"alias pci:v000010ECd00008168sv*sd*bc*sc*i* r8169\nalias pci:* sound\n" +
			"alias pci:v*d*sv*sd*bc0Csc03i30* xhci_pci\nalias usb:v0B95p772Ad* asix\n",
		"modules.softdep": "softdep libcrc32c pre: crc32c\nsoftdep r8169 pre: realtek\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "lib/modules", testRelease, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// needBuilder skips where an image cannot be built at all.
func needBuilder(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: trees have owners and device nodes")
	}
	for _, program := range []string{"mkfs.erofs", "fsck.erofs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian package erofs-utils)", program)
		}
	}
}

// edgeTree lists files at the limits of what EROFS and a Linux file system hold. Its kernel is awkwardTree's.
func edgeTree() []node {
	nodes := slices.Clone(awkwardTree()[:5])
	add := func(path string, n node) {
		n.path, n.mode = path, cmp.Or(n.mode, unix.S_IFREG|0o644)
		nodes = append(nodes, n)
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 65535, 65536, 65537, 131071, 131072, 131073} {
		add(fmt.Sprintf("size/%d", size), node{data: []byte(strings.Repeat("pando", size)[:size])})
	}
	for _, sec := range []int64{1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 15032385535} { // the last is ext4's last
		add(fmt.Sprintf("time/%d", sec), node{mtime: unix.Timespec{Sec: sec, Nsec: 999999999}})
	}
	for _, id := range []int{65534, 65535, 65536, 1 << 31, 1<<32 - 2} { // 1<<32-1 means "leave it" to chown
		add(fmt.Sprintf("owner/%d", id), node{uid: id})
		add(fmt.Sprintf("group/%d", id), node{uid: 1, gid: id})
	}
	for i := range 5000 {
		add(fmt.Sprintf("wide/%d-%s", i, strings.Repeat("n", i%200)), node{})
	}
	add(strings.Repeat("d/", 256)+"file", node{data: []byte("deep")})
	add(strings.Repeat("p", 254)+"/"+strings.Repeat("q", 254), node{data: []byte("long")})
	for _, size := range []int{1, 59, 60, 4000, 4031, 4032, 4033, 4063, 4064, 4065, 4095} {
		add(fmt.Sprintf("link/%d", size), node{mode: unix.S_IFLNK | 0o777, target: strings.Repeat("t", size)})
	}
	for kind, n := range map[string]node{
		"fifo": {mode: unix.S_IFIFO | 0o600}, "socket": {mode: unix.S_IFSOCK | 0o600}, "link": {mode: unix.S_IFLNK | 0o777, target: "fifo"},
		"device": {mode: unix.S_IFBLK | 0o600, dev: unix.Mkdev(4095, 1048575)}, "empty": {}, "attr": {xattrs: map[string]string{"user.x": "1"}},
	} {
		add("one/"+kind, n)
		add("two/"+kind, node{hard: true, target: "one/" + kind})
	}
	return nodes
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

var (
	nanoseconds = regexp.MustCompile(`\.[0-9]{9}`)
	after2106   = regexp.MustCompile(`^"time/(4294967296|15032385535)"`)
	posixACL    = regexp.MustCompile(` "?system\.posix_acl_[a-z]+"?=("[^"]*"|[^ ]*)`)
)

// inSeconds is a description of a tree without what squashfs does not hold: parts of seconds and ACLs.
func inSeconds(tree []string) []string {
	out := slices.DeleteFunc(slices.Clone(tree), func(line string) bool { return after2106.MatchString(line) })
	for i, line := range out {
		out[i] = posixACL.ReplaceAllString(nanoseconds.ReplaceAllString(line, ""), "")
	}
	return out
}

const testRelease = "6.1.0-1-test"
