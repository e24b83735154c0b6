package kernel

import (
	"debug/pe"
	"encoding/binary"
	"errors"
	"os"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestKernelOf(t *testing.T) {
	type files map[string][]byte
	module := []byte("m")
	short := testkit.FakeKernel("6.1.0-1")[:20000]
	for name, c := range map[string]struct {
		files   files
		release string
		path    string
		missing string
	}{
		"debian": {files{
			"boot/vmlinuz-6.1.0-9-amd64":              testkit.FakeKernel("6.1.0-9-amd64"),
			"usr/lib/modules/6.1.0-9-amd64/kernel/x":  module,
			"boot/vmlinuz-6.1.0-10-amd64":             testkit.FakeKernel("6.1.0-10-amd64"),
			"usr/lib/modules/6.1.0-10-amd64/kernel/x": module,
		}, "6.1.0-10-amd64", "boot/vmlinuz-6.1.0-10-amd64", ""},
		"fedora": {files{
			"usr/lib/modules/6.8.5-301.fc40/vmlinuz":  testkit.FakeKernel("6.8.5-301.fc40"),
			"usr/lib/modules/6.8.5-301.fc40/kernel/x": module,
		}, "6.8.5-301.fc40", "usr/lib/modules/6.8.5-301.fc40/vmlinuz", ""},
		"newest has no modules": {files{
			"boot/vmlinuz-6.1.0-1": testkit.FakeKernel("6.1.0-1"), "usr/lib/modules/6.1.0-1/kernel/x": module,
			"boot/vmlinuz-7.0.0": testkit.FakeKernel("7.0.0"),
		}, "6.1.0-1", "boot/vmlinuz-6.1.0-1", ""},
		"nothing":   {files{"etc/hostname": module}, "", "", "linux-image-amd64"},
		"container": {files{".dockerenv": nil}, "", "", "container"},
		"no modules": {files{"boot/vmlinuz-6.1.0-1": testkit.FakeKernel("6.1.0-1")}, "", "", "no modules in " +
			"/usr/lib/modules/6.1.0-1"},
		"only modules": {files{"usr/lib/modules/6.1.0-1/kernel/x": module}, "", "", "neither /boot/vmlinuz-*"},
		"cut off": {files{"boot/vmlinuz-6.1.0-1": short, "lib/modules/6.1.0-1/kernel/x": module}, "", "",
			"cut off"},
		"no kernel": {files{"boot/vmlinuz-6.1.0-1": []byte("hello"), "lib/modules/6.1.0-1/kernel/x": module}, "", "",
			"not a kernel image"},
		"other release": {files{"boot/vmlinuz-6.1.0-2": testkit.FakeKernel("6.1.0-1"),
			"lib/modules/6.1.0-2/kernel/x": module}, "", "",
			"says it is release 6.1.0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			for file, data := range c.files {
				file = filepath.Join(tree, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			k, err := Find(tree)
			var missing *MissingError
			switch {
			case c.missing != "" && (!errors.As(err, &missing) || !strings.Contains(err.Error(), c.missing)):
				t.Errorf("error %v, want one with %q", err, c.missing)
			case c.missing == "" && (err != nil || k.Release != c.release || k.Path != c.path ||
				k.Architecture != "amd64"):
				t.Errorf("kernel %+v, %v", k, err)
			}
		})
	}
}

// TestKernelOfStaysInTheTree: a link in a tree cannot make the builder read the machine's own files.
func TestKernelOfStaysInTheTree(t *testing.T) {
	tree, outside := t.TempDir(), filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(outside, testkit.FakeKernel("6.1.0-1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(tree, "boot"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(tree, "boot/vmlinuz-6.1.0-1")); err != nil {
		t.Fatal(err)
	}
	if k, err := Find(tree); err == nil {
		t.Errorf("found %+v", k)
	}
}

// zboot returns a self-unpacking kernel for arm64, whose compressed payload has the banner.
func zboot(t *testing.T, kind string, pack func(*testing.T, []byte) []byte, release string) []byte {
	t.Helper()
	payload := pack(t, []byte(strings.Repeat("\x00", 9000)+"Linux version %s (%s)\x00Linux version "+release+
		" (builder@host) #1 SMP"))
	out := testkit.FakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64)
	copy(out, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(out[8:], uint32(len(out)))
	binary.LittleEndian.PutUint32(out[12:], uint32(len(payload)))
	copy(out[24:56], append([]byte(kind), make([]byte, 32)...))
	copy(out[56:60], "\x00\x00\x00\x00")
	return append(out, payload...)
}

func zstded(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(data, nil)
}

// TestKernelWhoseReleaseIsInItsHeader: distributions name kernel files in many ways. The release in the header
// decides which modules belong to the kernel.
func TestKernelWhoseReleaseIsInItsHeader(t *testing.T) {
	image := slices.Concat(testkit.FakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64), []byte("Linux version 6.6.31-0-lts (x)"))
	for name, c := range map[string]struct {
		kernel  []byte
		file    string
		release string
	}{
		"Alpine": {testkit.FakeKernel("6.6.31-0-lts"), "boot/vmlinuz-lts", "6.6.31-0-lts"},
		"Arch":   {testkit.FakeKernel("6.9.1-arch1-1"), "boot/vmlinuz-linux", "6.9.1-arch1-1"},
		"Arch, its own": {
			testkit.FakeKernel("6.9.1-arch1-1"), "usr/lib/modules/6.9.1-arch1-1/vmlinuz", "6.9.1-arch1-1",
		},
		"Gentoo": {testkit.FakeKernel("6.6.30-gentoo"), "boot/kernel-6.6.30-gentoo", "6.6.30-gentoo"},
		"Gentoo, genkernel": {
			testkit.FakeKernel("6.6.30-gentoo-x86_64"), "boot/kernel-genkernel-x86_64-6.6.30-gentoo",
			"6.6.30-gentoo-x86_64",
		},
		"by hand": {testkit.FakeKernel("6.9.1"), "boot/bzImage", "6.9.1"},
		"kernel-install": {
			testkit.FakeKernel("6.8.5-301.fc40.x86_64"), "efi/0123456789abcdef/6.8.5-301.fc40.x86_64/linux",
			"6.8.5-301.fc40.x86_64",
		},
		"kernel-install, XBOOTLDR": {testkit.FakeKernel("6.8.5"), "boot/fedora/6.8.5/linux", "6.8.5"},
		"kernel-install, ESP":      {testkit.FakeKernel("6.8.5"), "boot/efi/0123/6.8.5/linux", "6.8.5"},
		"openSUSE, arm64":          {image, "usr/lib/modules/6.4.0-default/Image", "6.4.0-default"},
		"Alpine, arm64":            {image, "boot/vmlinuz-lts", "6.6.31-0-lts"},
		"packed, arm64":            {gzipped(t, image), "boot/vmlinuz-lts", "6.6.31-0-lts"},
		"zboot of gzip":            {zboot(t, "gzip", gzipped, "6.6.31-0-lts"), "boot/vmlinuz-lts", "6.6.31-0-lts"},
		"zboot of zstd":            {zboot(t, "zstd22", zstded, "6.6.31-0-lts"), "boot/vmlinuz-lts", "6.6.31-0-lts"},
		"name says otherwise":      {testkit.FakeKernel("6.1.0-1"), "boot/vmlinuz-6.1.0-2", "6.1.0-1"},
	} {
		tree := t.TempDir()
		testkit.Put(t, filepath.Join(tree, c.file), c.kernel)
		testkit.Put(t, filepath.Join(tree, "usr/lib/modules", c.release, "kernel/x"), []byte("m"))
		testkit.Put(t, filepath.Join(tree, "boot/initramfs-lts"), []byte("\x1f\x8b not a kernel"))
		if k, err := Find(tree); err != nil || k.Release != c.release || k.Path != c.file {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
}

// TestKernelOfSeveral: a plain kernel is preferred to one for a special purpose, then the newest.
func TestKernelOfSeveral(t *testing.T) {
	for want, others := range map[string][]string{
		"6.8.5-301.fc40.x86_64":   {"6.8.5-301.fc40.x86_64+debug", "6.8.4-300.fc40.x86_64"},
		"5.14.0-427.el9.x86_64":   {"5.14.0-427.el9.x86_64+rt", "5.14.0-430.el9.x86_64+debug"},
		"6.1.0-9-amd64":           {"6.1.0-9-cloud-amd64", "6.1.0-10-cloud-amd64", "6.1.0-9-rt-amd64", "6.1.0-8-amd64"},
		"6.12.48+deb13-amd64":     {"6.12.48+deb13-cloud-amd64", "6.12.41+deb13-amd64"},
		"6.8.0-31-generic":        {"6.8.0-31-lowlatency", "6.8.0-40-aws"},
		"6.6.31-0-lts":            {"6.6.31-0-virt"},
		"6.9.1-arch1-1":           {"6.6.31-1-lts"},
		"6.4.0-150600.21-default": {"6.4.0-150600.21-kvmsmall", "6.4.0-150600.10.1-rt"},
		"6.9.0":                   {"6.9.0+mine"},
		"6.1.0-10-cloud-amd64":    {"6.1.0-9-cloud-amd64"}, // nothing else is there
	} {
		tree := t.TempDir()
		for _, r := range append(others, want) {
			testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-"+r), testkit.FakeKernel(r))
			testkit.Put(t, filepath.Join(tree, "usr/lib/modules", r, "kernel/x"), []byte("m"))
		}
		k, err := Find(tree)
		got := Others(tree, k)
		slices.Sort(got)
		slices.Sort(others)
		if err != nil || k.Release != want || !slices.Equal(got, others) {
			t.Errorf("%+v, %v, others %q; want %s and %q", k, err, got, want, others)
		}
		for _, r := range others {
			if k, err := FindRelease(tree, r); err != nil || k.Release != r {
				t.Errorf("asked for %s: %+v, %v", r, k, err)
			}
		}
		if _, err := FindRelease(tree, "9.9"); err == nil || !strings.Contains(err.Error(), "there are") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("asked for 9.9: %v", err)
		}
	}
}
