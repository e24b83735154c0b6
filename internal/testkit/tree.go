package testkit

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

	"golang.org/x/sys/unix"
)

// Node is one file of a test tree.
type Node struct {
	Path   string
	Mode   uint32 // including type bits
	Data   []byte
	Size   int64  // of a sparse file, whose data is at its end
	Target string // target of a symbolic link; for a hard link the path of the other name
	Hard   bool
	dev    uint64
	uid    int
	gid    int // 0: same as uid
	Xattrs map[string]string
	Mtime  unix.Timespec
}

// AwkwardTree returns files of every kind that a root file system may have.
func AwkwardTree() []Node {
	rng := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	nodes := []Node{
		{Path: "boot", Mode: unix.S_IFDIR | 0o755},
		{Path: "boot/vmlinuz-6.1.0-test", Mode: unix.S_IFREG | 0o600, Data: FakeKernel("6.1.0-test")},
		{Path: "boot/grub", Mode: unix.S_IFDIR | 0o755},
		{Path: "boot/grub/grub.cfg", Mode: unix.S_IFREG | 0o644, Data: []byte("never booted")},
		{Path: "usr/lib/modules/6.1.0-test/kernel/x.ko", Mode: unix.S_IFREG | 0o644, Data: []byte("module")},
		{Path: "opt/boot/kept", Mode: unix.S_IFREG | 0o644, Data: []byte("not the top one")},
		{Path: "empty", Mode: unix.S_IFREG | 0o644},
		{Path: "secret", Mode: unix.S_IFREG, Data: []byte("mode 0")},
		{Path: "bin/su", Mode: unix.S_IFREG | 0o4755, Data: random(70000)},
		{Path: "bin/ping", Mode: unix.S_IFREG | 0o755, Data: random(33000), Xattrs: map[string]string{
			"security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		}},
		{Path: "tmp", Mode: unix.S_IFDIR | 0o1777},
		{Path: "var/mail", Mode: unix.S_IFDIR | 0o2775, uid: 8},
		{Path: "srv/acl", Mode: unix.S_IFDIR | 0o755, Xattrs: map[string]string{
			"system.posix_acl_access": acl(), "system.posix_acl_default": acl(), "user.b": "two", "user.a": "one",
			"trusted.z": "",
		}},
		{Path: "srv/acl/file", Mode: unix.S_IFREG | 0o644, Data: []byte("x"), Xattrs: map[string]string{
			"system.posix_acl_access": acl(), "user.long": strings.Repeat("v", 3000),
		}},
		{Path: "dev/null", Mode: unix.S_IFCHR | 0o666, dev: unix.Mkdev(1, 3)},
		{Path: "dev/sdz", Mode: unix.S_IFBLK | 0o660, dev: unix.Mkdev(65, 144)},
		{Path: "dev/big", Mode: unix.S_IFCHR | 0o600, dev: unix.Mkdev(300, 70000)},
		{Path: "run/fifo", Mode: unix.S_IFIFO | 0o600},
		{Path: "run/socket", Mode: unix.S_IFSOCK | 0o755},
		{Path: "lib", Mode: unix.S_IFLNK | 0o777, Target: "usr/lib"},
		{Path: "dangling", Mode: unix.S_IFLNK | 0o777, Target: "/" + strings.Repeat("nowhere/", 500)},
		{Path: "hard/one", Mode: unix.S_IFREG | 0o644, Data: random(9000)},
		{Path: "zz/two", Hard: true, Target: "hard/one"},
		{Path: "aa/three", Hard: true, Target: "hard/one"},
		{Path: "sparse", Mode: unix.S_IFREG | 0o644, Size: 40 << 20, Data: []byte("the end")},
		{Path: "large", Mode: unix.S_IFREG | 0o644, Data: random(3<<20 + 17)},
		{Path: "same/a", Mode: unix.S_IFREG | 0o644, Data: make([]byte, 100)},
		{Path: "high", Mode: unix.S_IFREG | 0o644, Data: []byte("x"), uid: 1 << 20},
		{Path: "old", Mode: unix.S_IFREG | 0o644, Data: []byte("x"), Mtime: unix.Timespec{Sec: 86400, Nsec: 7}},
		{
			Path:  "newest",
			Mode:  unix.S_IFREG | 0o644,
			Data:  []byte("x"),
			Mtime: unix.Timespec{Sec: 1760000000, Nsec: 999999999},
		},
	}
	for _, name := range []string{
		"new\nline", "tab\tand space", "-rf", "quote'\"`$(x)", `back\slash`, "\xff\xfe not utf-8", "ümläut", "n\x01",
		strings.Repeat("l", 254), "boot\nx", "*", ".hidden",
	} {
		nodes = append(nodes, Node{Path: "odd/" + name, Mode: unix.S_IFREG | 0o644, Data: []byte(name)})
	}
	nodes = append(
		nodes,
		Node{Path: strings.Repeat("deep/", 60) + "file", Mode: unix.S_IFREG | 0o644, Data: []byte("down")},
	)
	for i := range 700 { // a directory of several blocks; small files to be grouped; shared attributes
		n := Node{
			Path: fmt.Sprintf("many/file-with-a-name-%04d", i),
			Mode: unix.S_IFREG | 0o644,
			Data: random(rng.IntN(12000)),
		}
		if i%50 == 0 {
			n.Xattrs = map[string]string{"user.shared": "the same", "user.other": "too"}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// acl is a POSIX ACL as its extended attribute holds it: version 2, then tag, permissions, id.
func acl() string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	const none = 1<<32 - 1
	for _, e := range [][3]uint32{{1, 6, none}, {2, 7, 1000}, {4, 4, none}, {16, 7, none}, {32, 4, none}} {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return string(b)
}

// FakeKernel is a file with the header of an x86 kernel image.
func FakeKernel(release string) []byte {
	b := make([]byte, 40000)
	copy(b[0x202:], "HdrS")
	b[0x1f1] = 4
	binary.LittleEndian.PutUint32(b[0x1f4:], uint32((len(b)-5*512)/16))
	binary.LittleEndian.PutUint16(b[0x20e:], 0x1000)
	copy(b[0x1200:], release+" (builder@host) #1 SMP\x00")
	return b
}

// MakeTree makes the files in the order of nodes; hard links and times come last.
func MakeTree(t TB, root string, nodes []Node) {
	t.Helper()
	old := unix.Umask(0)
	defer unix.Umask(old)
	check := func(n Node, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make %q: %v", n.Path, err)
		}
	}
	for _, n := range nodes {
		if !n.Hard {
			check(n, os.MkdirAll(filepath.Dir(filepath.Join(root, n.Path)), 0o755))
			check(n, makeNode(filepath.Join(root, n.Path), n))
		}
	}
	for _, n := range nodes {
		if n.Hard {
			check(n, os.MkdirAll(filepath.Dir(filepath.Join(root, n.Path)), 0o755))
			check(n, os.Link(filepath.Join(root, n.Target), filepath.Join(root, n.Path)))
		}
	}
	times := map[string]unix.Timespec{}
	for _, n := range nodes {
		times[n.Path] = n.Mtime
	}
	check(Node{Path: "times"}, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
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

func makeNode(path string, n Node) error {
	var err error
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = os.Mkdir(path, 0o700); os.IsExist(err) {
			err = nil
		}
	case unix.S_IFLNK:
		err = os.Symlink(n.Target, path)
	case unix.S_IFREG:
		err = writeSparse(path, n)
	default:
		err = unix.Mknod(path, n.Mode, int(n.dev))
	}
	if err == nil {
		err = os.Lchown(path, n.uid, cmp.Or(n.gid, n.uid))
	}
	if err == nil && n.Mode&unix.S_IFMT != unix.S_IFLNK {
		err = unix.Chmod(path, n.Mode&0o7777)
	}
	for k, v := range n.Xattrs { // in the order of a map: another one each time
		if err == nil {
			if err = unix.Lsetxattr(path, k, []byte(v), 0); err != nil {
				err = fmt.Errorf("attribute %s: %w", k, err)
			}
		}
	}
	return err
}

func writeSparse(path string, n Node) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(n.Data, max(0, n.Size-int64(len(n.Data))))
	return err
}

// Describe lists a tree: one line for each name with all that must survive. What is below boot is left out.
func Describe(t TB, root string) []string {
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

// MountAt mounts something until the test ends, or skips.
func MountAt(t TB, args ...string) string {
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

// CompareTrees reports the files in which two trees, as describe lists them, differ.
func CompareTrees(t TB, got, want []string) {
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

// FakeModule is the least that debug/elf reads as a module: a header and .modinfo.
func FakeModule(t TB, info ...string) []byte {
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

// FakeTree is a tree with a handful of modules, as Debian lays them out.
func FakeTree(t TB) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "lib/modules", TestRelease)
	put := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("kernel/nbd.ko", FakeModule(t, "license=GPL"))
	put("kernel/erofs.ko", FakeModule(t, "depends=libcrc32c"))
	put("kernel/overlay.ko", FakeModule(t))
	put("kernel/libcrc32c.ko", FakeModule(t, "softdep=pre: crc32c"))
	put("kernel/crc32c_generic.ko", FakeModule(t, "alias=crc32c", "alias=crypto-crc32c"))
	put("kernel/r8169.ko", FakeModule(t, "depends=libphy", "softdep=pre: realtek", "firmware=rtl_nic/a.fw",
		"firmware=rtl_nic/missing.fw", "firmware=../../etc/passwd", "alias=pci:v000010ECd00008168sv*sd*bc*sc*i*"))
	put("kernel/libphy.ko", FakeModule(t))
	put("kernel/realtek.ko", FakeModule(t, "depends=libphy"))
	put("kernel/xhci-pci.ko", FakeModule(t, "alias=pci:v*d*sv*sd*bc0Csc03i30*"))
	put("kernel/asix.ko", FakeModule(t, "depends=libphy", "alias=usb:v0B95p772Ad*"))
	put("kernel/sound.ko", FakeModule(t, "alias=pci:*"))
	put("modules.builtin", []byte("kernel/net/packet/af_packet.ko\nkernel/virtio_pci.ko\n"))
	return root
}

// Depmod writes what the tool would have written for fakeTree.
func Depmod(t TB, root string) {
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
		if err := os.WriteFile(filepath.Join(root, "lib/modules", TestRelease, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// NeedBuilder skips where an image cannot be built at all.
func NeedBuilder(t TB) {
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

// EdgeTree lists files at the limits of what EROFS and a Linux file system hold. Its kernel is awkwardTree's.
func EdgeTree() []Node {
	nodes := slices.Clone(AwkwardTree()[:5])
	add := func(path string, n Node) {
		n.Path, n.Mode = path, cmp.Or(n.Mode, unix.S_IFREG|0o644)
		nodes = append(nodes, n)
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 65535, 65536, 65537, 131071, 131072, 131073} {
		add(fmt.Sprintf("size/%d", size), Node{Data: []byte(strings.Repeat("pando", size)[:size])})
	}
	for _, sec := range []int64{1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 15032385535} { // the last is ext4's last
		add(fmt.Sprintf("time/%d", sec), Node{Mtime: unix.Timespec{Sec: sec, Nsec: 999999999}})
	}
	for _, id := range []int{65534, 65535, 65536, 1 << 31, 1<<32 - 2} { // 1<<32-1 means "leave it" to chown
		add(fmt.Sprintf("owner/%d", id), Node{uid: id})
		add(fmt.Sprintf("group/%d", id), Node{uid: 1, gid: id})
	}
	for i := range 5000 {
		add(fmt.Sprintf("wide/%d-%s", i, strings.Repeat("n", i%200)), Node{})
	}
	add(strings.Repeat("d/", 256)+"file", Node{Data: []byte("deep")})
	add(strings.Repeat("p", 254)+"/"+strings.Repeat("q", 254), Node{Data: []byte("long")})
	for _, size := range []int{1, 59, 60, 4000, 4031, 4032, 4033, 4063, 4064, 4065, 4095} {
		add(fmt.Sprintf("link/%d", size), Node{Mode: unix.S_IFLNK | 0o777, Target: strings.Repeat("t", size)})
	}
	for kind, n := range map[string]Node{
		"fifo": {Mode: unix.S_IFIFO | 0o600}, "socket": {Mode: unix.S_IFSOCK | 0o600},
		"link":   {Mode: unix.S_IFLNK | 0o777, Target: "fifo"},
		"device": {Mode: unix.S_IFBLK | 0o600, dev: unix.Mkdev(4095, 1048575)}, "empty": {},
		"attr": {Xattrs: map[string]string{"user.x": "1"}},
	} {
		add("one/"+kind, n)
		add("two/"+kind, Node{Hard: true, Target: "one/" + kind})
	}
	return nodes
}

// Put writes a file, and makes the directories above it.
func Put(t TB, path string, data []byte) {
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

// InSeconds is a description of a tree without what squashfs does not hold: parts of seconds and ACLs.
func InSeconds(tree []string) []string {
	out := slices.DeleteFunc(slices.Clone(tree), func(line string) bool { return after2106.MatchString(line) })
	for i, line := range out {
		out[i] = posixACL.ReplaceAllString(nanoseconds.ReplaceAllString(line, ""), "")
	}
	return out
}

// TestRelease is the kernel release of FakeTree.
const TestRelease = "6.1.0-1-test"
