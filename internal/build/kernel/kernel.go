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

// Kernel is a kernel that was found in a tree.
type Kernel struct {
	Path         string // relative to the tree
	Release      string // uname -r
	Architecture string // "amd64", "arm64"
}

// MissingError means that a tree cannot boot, and says what is missing.
type MissingError struct {
	Tree    string
	Missing string // what is missing
	Install string // package that has it; "" if no package has
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("tree %s has no kernel that can boot: %s", e.Tree, e.Missing)
	if e.Install != "" {
		text += "; " + e.Install
	}
	return text
}

// Find finds the kernel of a tree that nodes will boot. A kernel needs an image (see images) and modules. A plain
// flavour is preferred to a special one, then the newest release. The error is a *MissingError. Links that lead out
// of the tree are not followed.
func Find(tree string) (Kernel, error) { return FindRelease(tree, "") }

// FindRelease is Find for a given release; "" means any.
func FindRelease(tree, release string) (Kernel, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return Kernel{}, fmt.Errorf("find kernel: %w", err)
	}
	defer root.Close()
	found := images(root)
	if len(found) == 0 {
		missing := "neither /boot/vmlinuz-* nor /usr/lib/modules/*/vmlinuz is there"
		if systree.Exists(path.Join(tree, ".dockerenv")) || !systree.Exists(path.Join(tree, "lib/modules")) {
			missing += "; it looks like a container's tree, and those have no kernel"
		}
		return Kernel{}, &MissingError{tree, missing, systree.KernelPackages(tree)}
	}
	whole := slices.DeleteFunc(slices.Clone(found), func(k Kernel) bool { return !hasModules(root, k.Release) })
	for _, k := range whole {
		if release != "" && k.Release != release {
			continue
		}
		if k.Architecture, err = kernelArchitecture(root, k); err != nil {
			return k, &MissingError{Tree: tree, Missing: err.Error()}
		}
		return k, nil
	}
	if release != "" && len(whole) > 0 {
		return Kernel{}, &MissingError{Tree: tree, Missing: fmt.Sprintf("none of release %s; there are %s", release,
			strings.Join(releases(whole), ", "))}
	}
	return Kernel{}, &MissingError{tree, withoutModules(root, found), systree.KernelPackages(tree)}
}

// withoutModules describes the fault of a tree that has kernels but modules for none of them.
func withoutModules(root *os.Root, found []Kernel) string {
	k := found[0]
	text := "/" + k.Path
	if !strings.Contains(k.Path, k.Release) {
		text += " says it is release " + k.Release + ", and"
	}
	text += " has no modules in /usr/lib/modules/" + strings.Join(releases(found), ", ")
	if have := moduleReleases(root); len(have) > 0 {
		text += "; there are modules of " + strings.Join(have, ", ")
	}
	return text
}

func releases(list []Kernel) []string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = k.Release
	}
	return out
}

// Others lists the releases of the other bootable kernels of a tree.
func Others(tree string, k Kernel) []string {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil
	}
	defer root.Close()
	var out []string
	for _, other := range images(root) {
		if other.Release != k.Release && hasModules(root, other.Release) {
			out = append(out, other.Release)
		}
	}
	return out
}

func hasModules(root *os.Root, release string) bool {
	if release == "" || strings.Contains(release, "/") {
		return false
	}
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		if len(systree.ReadDir(root, path.Join(dir, release, "kernel"))) > 0 {
			return true
		}
	}
	return false
}

// moduleReleases lists the releases for which a tree has modules.
func moduleReleases(root *os.Root) (out []string) {
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		for _, f := range systree.ReadDir(root, dir) {
			if r := f.Name(); hasModules(root, r) && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return out
}

// kernelArchitecture reads the architecture from the kernel image (Linux, Documentation/arch/x86/boot.rst and
// Documentation/arch/arm64/booting.rst). It returns an error for a truncated file, or for one that is no kernel.
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
	if bytes.HasPrefix(head, gzipMagic) {
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
	case isBzImage(head):
		return "amd64", checkBzImage(head, info.Size(), k)
	case isARM64(head):
		return "arm64", checkEFI(f, info.Size(), k)
	}
	return "", fmt.Errorf("/%s is not a kernel image for amd64 or arm64", k.Path)
}

// checkBzImage compares the size in the header with that of the file.
func checkBzImage(head []byte, size int64, k Kernel) error {
	le := binary.LittleEndian
	sectors := int64(head[0x1f1])
	if sectors == 0 {
		sectors = 4
	}
	if want := (sectors+1)*512 + int64(le.Uint32(head[0x1f4:]))*16; size < want {
		return fmt.Errorf("/%s is cut off: %d bytes of %d", k.Path, size, want)
	}
	return nil
}
