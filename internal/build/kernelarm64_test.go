package build

import (
	"bytes"
	"debug/elf"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"pando/internal/image"
)

// fakeARM64 is the least that UEFI would start as a kernel of arm64: the kernel's header, which is the head of an
// EFI program, and one section.
func fakeARM64(t *testing.T, machine uint16) []byte {
	t.Helper()
	const size = 4096
	b := make([]byte, 64, size)
	copy(b, "MZ")
	copy(b[56:], "ARM\x64")
	binary.LittleEndian.PutUint32(b[60:], 64)
	var head bytes.Buffer
	head.WriteString("PE\x00\x00")
	for _, part := range []any{pe.FileHeader{Machine: machine, NumberOfSections: 1},
		pe.SectionHeader32{Name: [8]uint8{'.', 't', 'e', 'x', 't'}, SizeOfRawData: size - 1024, PointerToRawData: 1024}} {
		if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return append(b, head.Bytes()...)[:size]
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestKernelOfARM64(t *testing.T) {
	whole := fakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64)
	zboot := slices.Concat([]byte("MZ\x00\x00zimg"), make([]byte, 48), []byte{0, 0, 0, 0}, whole[60:])
	packed := gzipped(t, whole)
	bare := slices.Clone(whole)
	clear(bare[:4])
	for name, tt := range map[string]struct {
		kernel []byte
		want   string // in the error
	}{
		"plain": {whole, ""}, "packed": {gzipped(t, whole), ""}, "unpacks itself": {zboot, ""},
		"cut off":              {whole[:3000], "cut off"},
		"packed, cut off":      {gzipped(t, whole)[:60], "EOF"},
		"packed, of amd64":     {gzipped(t, fakeKernel("6.1.0")), "not a kernel image for arm64"},
		"no EFI program":       {bare, "CONFIG_EFI_STUB"},
		"for another machine":  {fakeARM64(t, pe.IMAGE_FILE_MACHINE_AMD64), "not for arm64"},
		"neither of these two": {[]byte(strings.Repeat("hello ", 1000)), "not a kernel image for amd64 or arm64"},
	} {
		tree := t.TempDir()
		put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), tt.kernel)
		put(t, filepath.Join(tree, "usr/lib/modules/6.1.0/kernel/x"), []byte("m"))
		k, err := KernelOf(tree)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
			continue
		}
		if err != nil || k.Architecture != "arm64" {
			t.Errorf("%s: %+v, %v", name, k, err)
			continue
		}
		root, err := os.OpenRoot(tree)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := sentKernel(root, k)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "unpacks itself" && !bytes.Equal(sent, tt.kernel):
			t.Errorf("%s: packed once more", name)
		case name != "unpacks itself" && !bytes.Equal(sent, packed): // whoever packed it before
			t.Errorf("%s: %d bytes are sent, not the %d of the kernel packed here", name, len(sent), len(packed))
		}
		root.Close()
	}
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

// elfProgram is the head of a program.
func elfProgram(t *testing.T, machine elf.Machine) []byte {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What a tree lacks is said with the packages of the tree's architecture, and once.
func TestLacksOfAnArchitecture(t *testing.T) {
	tree := t.TempDir()
	put(t, filepath.Join(tree, "usr/bin/dash"), elfProgram(t, elf.EM_AARCH64))
	if err := os.Symlink("usr/bin", filepath.Join(tree, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/dash", filepath.Join(tree, "usr/bin/sh")); err != nil { // as on a node: "/" is the tree
		t.Fatal(err)
	}
	put(t, filepath.Join(tree, "usr/lib/systemd/systemd"), []byte("x"))
	if got := treeArchitecture(tree); got != "arm64" {
		t.Fatalf("architecture %q", got)
	}
	b := &builder{root: tree}
	check := func(want ...string) {
		t.Helper()
		_, err := b.bootable()
		if err == nil {
			t.Fatal("it boots")
		}
		for _, w := range want {
			if strings.Count(err.Error(), w) != 1 {
				t.Errorf("it says %q %d times:\n%v", w, strings.Count(err.Error(), w), err)
			}
		}
		if strings.Contains(err.Error(), "linux-image-amd64") {
			t.Errorf("it names a package of another architecture:\n%v", err)
		}
	}
	check("no kernel: neither /boot", "linux-image-arm64")
	put(t, filepath.Join(tree, "etc/os-release"), []byte("ID=debian\n"))
	check("no kernel: neither /boot", "apt-get install linux-image-arm64 ")
	put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), fakeKernel("6.1.0"))
	put(t, filepath.Join(tree, "usr/lib/modules/6.1.0/kernel/x"), []byte("m"))
	check("is for amd64, and its programs are for arm64", "linux-image-arm64")
	put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), fakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64))
	if _, err := b.bootable(); err != nil {
		t.Error(err)
	}
}

// A tree with systemd's journal that cannot send it is warned of with the package that brings the program, and
// others are not.
func TestLacksTheUploader(t *testing.T) {
	tree := t.TempDir()
	for _, f := range []string{"usr/lib/systemd/systemd", "usr/lib/systemd/systemd-udevd", "usr/sbin/sshd", "usr/lib/modules/6.1.0/kernel/x"} {
		put(t, filepath.Join(tree, f), []byte("x"))
	}
	put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), fakeKernel("6.1.0"))
	put(t, filepath.Join(tree, "etc/os-release"), []byte("ID=debian\n"))
	check := func(file, warning string, lacks ...string) {
		t.Helper()
		if file != "" {
			put(t, filepath.Join(tree, file), []byte("x"))
		}
		b := &builder{root: tree}
		warnings, err := b.bootable()
		if err != nil || strings.Join(warnings, "\n") != warning || !slices.Equal(b.result.Provenance.Lacks, lacks) {
			t.Errorf("with %s: %q, lacks %q, %v", file, warnings, b.result.Provenance.Lacks, err)
		}
	}
	check("", "")
	check(
		"usr/lib/systemd/systemd-journald",
		"there is no systemd-journal-upload: what its nodes log is gone with them; "+
			"in the tree: apt-get install systemd-journal-remote",
		image.LacksUploader,
	)
	check("usr/lib/systemd/systemd-journal-upload", "")
}

// A kernel that no node could boot with is found before the long work.
func TestNeedsOfAKernel(t *testing.T) {
	root := fakeTree(t)
	opt := DriverOptions{Tree: root, Release: testRelease}
	if err := checkNeeds(t.Context(), opt); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"nbd", "overlay"} {
		if err := os.Remove(filepath.Join(root, "lib/modules", testRelease, "kernel", name+".ko")); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkNeeds(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "has no nbd, overlay") {
		t.Errorf("a kernel without nbd and overlay: %v", err)
	}
}

// The boards of arm64 have their adapters in its part for every NIC, and amd64's parts are as they were.
func TestDriverListsOfArchitectures(t *testing.T) {
	is := func(architecture, module string) bool {
		return slices.Contains(driverLists("", architecture)[1].devices, module)
	}
	if !is("arm64", "hns3") || !is("arm64", "r8169") || is("amd64", "hns3") || is("", "bcmgenet") {
		t.Error("the adapters of boards are in the wrong part")
	}
}

// One recipe serves both architectures, unless it names one.
func TestRecipeOfAnArchitecture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.yaml")
	put(t, file, []byte("from: debian:bookworm\npackages: [\"grub-efi-{architecture}-bin\"]\n"))
	keys := map[string]bool{}
	for _, a := range []string{"amd64", "arm64"} {
		for _, name := range []string{file, "debian:trixie"} {
			r, err := LoadRecipeFor(name, a)
			if err != nil || r.Architecture != a || !slices.Contains(r.Packages, "linux-image-"+a) {
				t.Fatalf("%s for %s: %+v, %v", name, a, r, err)
			}
			keys[r.key()] = true
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d trees of two recipes for two architectures", len(keys))
	}
	put(t, file, []byte("from: debian:bookworm\narchitecture: amd64\n"))
	if _, err := LoadRecipeFor(file, "arm64"); err == nil ||
		!strings.Contains(err.Error(), "says amd64, and arm64 is asked for") {
		t.Errorf("a recipe of amd64 for arm64: %v", err)
	}
	if _, err := LoadRecipeFor("debian:bookworm", "riscv64"); err == nil ||
		!strings.Contains(err.Error(), "amd64 or arm64") {
		t.Errorf("%v", err)
	}
}
