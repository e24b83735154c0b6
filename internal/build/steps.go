package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/chunk"
	"pando/internal/image"
)

// kernelOf is the kernel of the tree: the one that it was given, or its newest.
func (b *builder) kernelOf() (TreeKernel, error) { return kernelIn(b.root, b.kernel) }

// scanTree is the step: it remembers how the tree is, and warns of what should not be in an image.
func (b *builder) scanTree(ctx context.Context) (err error) {
	b.scan, err = lookThrough(
		ctx,
		b.root,
		func(n int64) { b.Progress(Progress{Step: StepScan, Done: n, Unit: "files"}) },
	)
	if err != nil {
		return err
	}
	b.Progress(Progress{Step: StepScan, Done: b.scan.Files, Total: b.scan.Files, Unit: "files"})
	if b.extends != nil {
		b.scanExtension()
		return nil
	}
	kernel, err := b.kernelOf()
	lacks, err := b.lacks(kernel, err)
	if err != nil {
		return err // before the long work, not after it
	}
	if err := b.chooseFormat(kernel); err != nil {
		return err
	}
	if b.needs != nil {
		if err := b.needs(ctx, b.driverOptions(kernel)); err != nil {
			return err
		}
	}
	b.result.Provenance.Warnings = append(inspect(b.root), lacks...)
	if b.format == image.Erofs {
		b.result.Provenance.Warnings = append(b.result.Provenance.Warnings, b.scan.warnings()...)
	}
	for _, w := range b.result.Provenance.Warnings {
		b.Log.Warn("tree", "warning", w)
		b.Progress(Progress{Step: StepScan, Note: "warning: " + w})
	}
	return nil
}

// lacks looks for what the tree must or should have, of whose kernel KernelOf said this.
func (b *builder) lacks(k TreeKernel, err error) (warnings []string, _ error) {
	t := bootTree{Root: b.root, KernelPath: k.Path, KernelArchitecture: k.Architecture, AnyInit: b.anyInit || b.namesInit()}
	var none *NoKernelError
	if errors.As(err, &none) {
		t.NoKernel = none.Missing
	} else if err != nil {
		return nil, err
	}
	warnings, b.result.Provenance.Lacks, err = t.bootable()
	return warnings, err
}

// namesInit tells whether the command line has another init than the usual ones.
func (b *builder) namesInit() bool {
	args := b.CommandLine
	if b.Recipe != nil {
		args = append(slices.Clone(b.Recipe.CommandLine), args...)
	}
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "init=") })
}

// chooseFormat decides which file system the root becomes: what was asked for, or the first that the kernel can
// read. Of a kernel that can read none the drivers say what is missing.
func (b *builder) chooseFormat(k TreeKernel) error {
	can, why := readable(b.root, k.Release)
	if was := b.formatBefore(k.Release); was != "" && !slices.Contains(can, was) {
		can, why = append(can, was), append(why, "but the version before it is "+was)
	}
	b.format = image.Erofs
	switch {
	case b.Format != "" && !slices.Contains(can, b.Format):
		return &FormatError{Kernel: k.Release, Format: b.Format, Can: can}
	case b.Format != "":
		b.format = b.Format
	case len(can) > 0:
		b.format = can[0]
	}
	b.Progress(
		Progress{
			Step: StepScan,
			Note: fmt.Sprintf("root file system %s: kernel %s %s", b.format, k.Release, strings.Join(why, ", ")),
		},
	)
	return nil
}

// formatBefore is what the version that a tree is a copy of has for a root file system, if it has the same kernel:
// that can read it, whatever the tree says.
func (b *builder) formatBefore(release string) string {
	m, _ := b.before(release)
	return m.Root.FileSystem
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
	id, err := b.counter.put(ctx, w, data)
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
		id, err := b.counter.put(ctx, w, d.Data)
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

// workName names the work directory by what is built.
func (b *builder) workName() string {
	if b.Recipe != nil {
		return "recipe-" + b.Recipe.key()
	}
	if b.Source != nil {
		return "source-" + b.Source.Key()
	}
	abs, err := filepath.Abs(b.FromDir)
	if err != nil {
		abs = b.FromDir
	}
	sum := sha256.Sum256([]byte(abs))
	return "dir-" + hex.EncodeToString(sum[:8])
}
