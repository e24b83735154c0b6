package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"pando/internal/systree"
	"path"
	"slices"
	"strings"
)

// Kernel is the kernel found in a tree.
type Kernel struct {
	Path         string // relative to the tree
	Release      string // uname -r
	Architecture string // "amd64", "arm64"
}

// MissingError means that a tree cannot boot and what is missing.
type MissingError struct {
	Tree    string
	Missing string // what
	Install string // which package brings it; "": none would
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("tree %s has no kernel that can boot: %s", e.Tree, e.Missing)
	if e.Install != "" {
		text += "; " + e.Install
	}
	return text
}

// Find finds the newest kernel of a tree that has both an image (in /boot or beside its modules) and
// modules. The error is a *MissingError that says what is missing. No link is followed out of the tree.
func Find(tree string) (Kernel, error) { return FindRelease(tree, "") }

// FindRelease finds the kernel of a release, the newest for "".
func FindRelease(tree, release string) (Kernel, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return Kernel{}, fmt.Errorf("find kernel: %w", err)
	}
	defer root.Close()
	images := slices.DeleteFunc(
		kernelImages(root),
		func(k Kernel) bool { return release != "" && k.Release != release },
	)
	if len(images) == 0 {
		missing := "neither /boot/vmlinuz-* nor /usr/lib/modules/*/vmlinuz is there"
		if systree.Exists(path.Join(tree, ".dockerenv")) || !systree.Exists(path.Join(tree, "lib/modules")) {
			missing += "; it looks like a container's tree, and those have no kernel"
		}
		return Kernel{}, &MissingError{tree, missing, systree.KernelPackages(tree)}
	}
	var lacks []string
	for _, k := range images {
		if !hasModules(root, k.Release) {
			lacks = append(lacks, k.Release)
			continue
		}
		k.Architecture, err = kernelArchitecture(root, k)
		if err != nil {
			return k, &MissingError{Tree: tree, Missing: err.Error()}
		}
		return k, nil
	}
	return Kernel{}, &MissingError{
		tree,
		fmt.Sprintf("/%s has no modules in /usr/lib/modules/%s", images[0].Path, strings.Join(lacks, ", ")),
		systree.KernelPackages(tree),
	}
}

// kernelImages lists the kernel images of a tree, the newest release first.
func kernelImages(root *os.Root) []Kernel {
	var out []Kernel
	add := func(name, release string) {
		info, err := root.Stat(name)
		known := slices.ContainsFunc(out, func(k Kernel) bool { return k.Release == release })
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !known {
			out = append(out, Kernel{Path: name, Release: release})
		}
	}
	for _, f := range systree.ReadDir(root, "boot") {
		if release, ok := strings.CutPrefix(f.Name(), "vmlinuz-"); ok && release != "" {
			add("boot/"+f.Name(), release)
		}
	}
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		for _, f := range systree.ReadDir(root, dir) {
			add(path.Join(dir, f.Name(), "vmlinuz"), f.Name())
		}
	}
	slices.SortStableFunc(out, func(a, b Kernel) int { return systree.CompareReleases(b.Release, a.Release) })
	return out
}

func hasModules(root *os.Root, release string) bool {
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		if len(systree.ReadDir(root, path.Join(dir, release, "kernel"))) > 0 {
			return true
		}
	}
	return false
}

// kernelArchitecture reads it from the kernel image: Linux, Documentation/arch/x86/boot.rst and
// Documentation/arch/arm64/booting.rst. It also finds a cut-off or foreign file.
func kernelArchitecture(root *os.Root, k Kernel) (string, error) {
	f, err := root.Open(k.Path)
	if err != nil {
		return "", fmt.Errorf("/%s: %w", k.Path, err)
	}
	defer f.Close()
	head := make([]byte, 16<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("/%s: %w", k.Path, err)
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		data, err := readKernel(root, k.Path)
		if err != nil {
			return "", err
		}
		if !isARM64(data) {
			return "", fmt.Errorf("/%s is packed with gzip and not a kernel image for arm64", k.Path)
		}
		return "arm64", checkEFI(bytes.NewReader(data), int64(len(data)), k)
	}
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("/%s: %w", k.Path, err)
	}
	switch {
	case len(head) > 0x264 && string(head[0x202:0x206]) == "HdrS":
		return "amd64", checkBzImage(head, info.Size(), k)
	case isARM64(head):
		return "arm64", checkEFI(f, info.Size(), k)
	}
	return "", fmt.Errorf("/%s is not a kernel image for amd64 or arm64", k.Path)
}

// checkBzImage compares what the header says with the file.
func checkBzImage(head []byte, size int64, k Kernel) error {
	le := binary.LittleEndian
	sectors := int64(head[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	if want := (sectors+1)*512 + int64(le.Uint32(head[0x1f4:]))*16; size < want {
		return fmt.Errorf("/%s is cut off: %d bytes of %d", k.Path, size, want)
	}
	at := int(le.Uint16(head[0x20e:])) + 0x200
	if at > 0x200 && at < len(head) {
		text, _, _ := bytes.Cut(head[at:], []byte{0})
		got, _, _ := strings.Cut(string(text), " ")
		if got != "" && got != k.Release {
			return fmt.Errorf("/%s says it is release %s; its name says %s", k.Path, got, k.Release)
		}
	}
	return nil
}
