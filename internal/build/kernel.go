package build

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"pando/internal/chunk"
	"pando/internal/image"
)

// TreeKernel is the kernel found in a tree.
type TreeKernel struct {
	Path         string // relative to the tree
	Release      string // uname -r
	Architecture string // "amd64", "arm64"
}

// NoKernelError says that a tree cannot boot and what is missing.
type NoKernelError struct {
	Tree    string
	Missing string // what
	Install string // which package brings it; "": none would
}

func (e *NoKernelError) Error() string {
	text := fmt.Sprintf("tree %s has no kernel that can boot: %s", e.Tree, e.Missing)
	if e.Install != "" {
		text += "; " + e.Install
	}
	return text
}

// kernelPackages says where kernels come from, for whoever built a tree without.
func kernelPackages(tree string) string {
	debian := "linux-image-amd64 or linux-image-arm64"
	if a := treeArchitecture(tree); a != "" {
		debian = "linux-image-" + a
	}
	return "install the kernel's package (Debian: " + debian + "; Ubuntu: linux-image-generic; Fedora: " +
		"kernel-core and kernel-modules)"
}

// KernelOf finds the newest kernel of a tree that has both an image (in /boot or beside its modules) and
// modules. The error is a *NoKernelError that says what is missing. Links do not lead out of the tree.
func KernelOf(tree string) (TreeKernel, error) { return kernelIn(tree, "") }

// kernelOf is the kernel of the tree: the one that it was given, or its newest.
func (b *builder) kernelOf() (TreeKernel, error) { return kernelIn(b.root, b.kernel) }

// kernelIn finds the kernel of a release, the newest for "".
func kernelIn(tree, release string) (TreeKernel, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return TreeKernel{}, fmt.Errorf("find kernel: %w", err)
	}
	defer root.Close()
	images := slices.DeleteFunc(
		kernelImages(root),
		func(k TreeKernel) bool { return release != "" && k.Release != release },
	)
	if len(images) == 0 {
		missing := "neither /boot/vmlinuz-* nor /usr/lib/modules/*/vmlinuz is there"
		if exists(path.Join(tree, ".dockerenv")) || !exists(path.Join(tree, "lib/modules")) {
			missing += "; it looks like a container's tree, and those have no kernel"
		}
		return TreeKernel{}, &NoKernelError{tree, missing, kernelPackages(tree)}
	}
	var lacks []string
	for _, k := range images {
		if !hasModules(root, k.Release) {
			lacks = append(lacks, k.Release)
			continue
		}
		k.Architecture, err = kernelArchitecture(root, k)
		if err != nil {
			return k, &NoKernelError{Tree: tree, Missing: err.Error()}
		}
		return k, nil
	}
	return TreeKernel{}, &NoKernelError{
		tree,
		fmt.Sprintf("/%s has no modules in /usr/lib/modules/%s", images[0].Path, strings.Join(lacks, ", ")),
		kernelPackages(tree),
	}
}

// kernelImages lists the kernel images of a tree, the newest release first.
func kernelImages(root *os.Root) []TreeKernel {
	var out []TreeKernel
	add := func(name, release string) {
		info, err := root.Stat(name)
		known := slices.ContainsFunc(out, func(k TreeKernel) bool { return k.Release == release })
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !known {
			out = append(out, TreeKernel{Path: name, Release: release})
		}
	}
	for _, f := range readDir(root, "boot") {
		if release, ok := strings.CutPrefix(f.Name(), "vmlinuz-"); ok && release != "" {
			add("boot/"+f.Name(), release)
		}
	}
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		for _, f := range readDir(root, dir) {
			add(path.Join(dir, f.Name(), "vmlinuz"), f.Name())
		}
	}
	slices.SortStableFunc(out, func(a, b TreeKernel) int { return compareReleases(b.Release, a.Release) })
	return out
}

func readDir(root *os.Root, name string) []fs.DirEntry {
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // what cannot be read is not found
	return entries
}

func hasModules(root *os.Root, release string) bool {
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		if len(readDir(root, path.Join(dir, release, "kernel"))) > 0 {
			return true
		}
	}
	return false
}

// compareReleases orders kernel releases as people do: runs of digits by value, everything else by byte.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		x, restA := run(a)
		y, restB := run(b)
		if digit(x[0]) && digit(y[0]) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return len(a) - len(b)
}

// run cuts off the longest prefix that is all digits or all something else.
func run(s string) (head, rest string) {
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:]
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// kernelArchitecture reads it from the kernel image: Linux, Documentation/arch/x86/boot.rst and
// Documentation/arch/arm64/booting.rst. It also finds a cut-off or foreign file.
func kernelArchitecture(root *os.Root, k TreeKernel) (string, error) {
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
func checkBzImage(head []byte, size int64, k TreeKernel) error {
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

// addKernel is the step that stores kernel and drivers.
func (b *builder) addKernel(ctx context.Context) error {
	<-b.early.done
	k, err := b.early.kernel, b.early.err
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	data, err := sentKernel(root, k)
	if err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	w := b.Store.NewWriter()
	defer w.Close()
	id, err := b.put(ctx, w, data)
	if err != nil {
		return err
	}
	b.manifest.Architecture = k.Architecture
	b.manifest.Kernel = image.Kernel{Release: k.Release, Object: id, Size: int64(len(data))}
	b.Progress(Progress{Step: StepKernel, Note: "kernel " + k.Release})
	memory, err := openMemory(b.Store)
	if err != nil {
		return err
	}
	drivers := b.early.packed
	if k.Architecture == "amd64" {
		updates, err := Microcode(b.early.opt)
		if err != nil {
			return err
		}
		if updates != nil {
			drivers = append([]DriverCPIO{{Name: microcodeName, Data: updates}}, drivers...)
			b.Progress(Progress{Step: StepKernel, Note: fmt.Sprintf("processor updates, %d kB", len(updates)/1000)})
		}
	}
	for _, d := range drivers {
		id, err := b.put(ctx, w, d.Data)
		if err != nil {
			return err
		}
		if d.Raw > 0 {
			memory.add(d.digest, chunk.Entry{RawSize: int(d.Raw), StoredSize: len(d.Data), Codec: chunk.Zstd, ID: id})
		}
		b.manifest.Drivers = append(b.manifest.Drivers, image.Driver{Name: d.Name, Object: id, Size: int64(len(d.Data)),
			InsteadOf: d.InsteadOf, For: d.For, PCI: d.PCI})
	}
	return errors.Join(w.Sync(ctx), memory.save())
}

func (b *builder) driverOptions(k TreeKernel) DriverOptions {
	return DriverOptions{
		Tree:         b.root,
		Release:      k.Release,
		Architecture: k.Architecture,
		Firmware:     b.Firmware,
		FileSystem:   b.format,
		Log:          b.Log,
	}
}

// storeWriter is what put needs of a store.Writer.
type storeWriter interface {
	Put(ctx context.Context, stored []byte) (id chunk.ID, isNew bool, err error)
}

// put stores an object and counts it.
func (b *builder) put(ctx context.Context, w storeWriter, stored []byte) (chunk.ID, error) {
	id, isNew, err := w.Put(ctx, stored)
	if err != nil {
		return id, err
	}
	b.ids[id] = true
	if isNew {
		b.result.NewObjects++
		b.result.NewBytes += int64(len(stored))
	}
	return id, nil
}
