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

	"pando/internal/image"
	"pando/internal/systree"
	"pando/internal/testkit"
)

// elfProgram returns the header of a program.
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

// bootableTree checks a tree as a build does.
func bootableTree(tree string) (warnings, lacks []string, err error) {
	b := &builder{root: tree}
	k, err := b.kernelOf()
	warnings, err = b.lacks(k, err)
	return warnings, b.result.Provenance.Lacks, err
}

// TestLacksOfAnArchitecture: the findings name the packages of the tree's architecture, each once.
func TestLacksOfAnArchitecture(t *testing.T) {
	tree := t.TempDir()
	testkit.Put(t, filepath.Join(tree, "usr/bin/dash"), elfProgram(t, elf.EM_AARCH64))
	if err := os.Symlink("usr/bin", filepath.Join(tree, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/dash", filepath.Join(tree, "usr/bin/sh")); err != nil { // as on a node: "/" is the tree
		t.Fatal(err)
	}
	testkit.Put(t, filepath.Join(tree, "usr/lib/systemd/systemd"), []byte("x"))
	if got := systree.Architecture(tree); got != "arm64" {
		t.Fatalf("architecture %q", got)
	}
	check := func(want ...string) {
		t.Helper()
		_, _, err := bootableTree(tree)
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
	testkit.Put(t, filepath.Join(tree, "etc/os-release"), []byte("ID=debian\n"))
	check("no kernel: neither /boot", "apt-get install linux-image-arm64 ")
	testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), testkit.FakeKernel("6.1.0"))
	testkit.Put(t, filepath.Join(tree, "usr/lib/modules/6.1.0/kernel/x"), []byte("m"))
	check("is for amd64, and its programs are for arm64", "linux-image-arm64")
	testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), testkit.FakeARM64(t, pe.IMAGE_FILE_MACHINE_ARM64))
	if _, _, err := bootableTree(tree); err != nil {
		t.Error(err)
	}
}

// TestLacksTheUploader: a tree that has systemd's journal but cannot send it causes a warning with the missing
// package. Other trees cause none.
func TestLacksTheUploader(t *testing.T) {
	tree := t.TempDir()
	for _, f := range []string{"usr/lib/systemd/systemd", "usr/lib/systemd/systemd-udevd", "usr/sbin/sshd",
		"usr/lib/modules/6.1.0/kernel/x"} {
		testkit.Put(t, filepath.Join(tree, f), []byte("x"))
	}
	testkit.Put(t, filepath.Join(tree, "boot/vmlinuz-6.1.0"), testkit.FakeKernel("6.1.0"))
	testkit.Put(t, filepath.Join(tree, "etc/os-release"), []byte("ID=debian\n"))
	check := func(file, warning string, lacks ...string) {
		t.Helper()
		if file != "" {
			testkit.Put(t, filepath.Join(tree, file), []byte("x"))
		}
		warnings, missing, err := bootableTree(tree)
		if err != nil || strings.Join(warnings, "\n") != warning || !slices.Equal(missing, lacks) {
			t.Errorf("with %s: %q, lacks %q, %v", file, warnings, missing, err)
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
