package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/build/base"
	"pando/internal/build/check"
	"pando/internal/build/initramfs"
	"pando/internal/build/kernel"
	"pando/internal/build/rootfs"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/rawdigest"
	"pando/internal/steps"
	"pando/internal/systree"
)

// kernelOf returns the kernel of the tree: the requested one, the one that KernelFrom gave it, or else the preferred
// one.
func (b *builder) kernelOf() (kernel.Kernel, error) {
	return kernel.FindRelease(b.root, cmp.Or(b.Kernel, b.kernel))
}

// keptKernel returns the kernel release of the version whose copy was changed, or "" if the change installed another
// kernel. A choice among several kernels thus stays the same.
func keptKernel(c *base.Copy) string {
	was := c.Manifest.Kernel.Release
	if k, err := kernel.FindRelease(c.Root, was); err != nil || k.Release != was {
		return ""
	}
	if k, err := kernel.Find(c.Root); err == nil && !systree.Has(c.Lower, "lib/modules/"+k.Release) &&
		!systree.Has(c.Lower, "usr/lib/modules/"+k.Release) {
		return ""
	}
	return was
}

// otherKernels warns if a tree has several kernels and none was requested.
func (b *builder) otherKernels(k kernel.Kernel) []string {
	others := kernel.Others(b.root, k)
	if len(others) == 0 || b.Kernel != "" || b.kernel != "" {
		return nil
	}
	return []string{fmt.Sprintf("the tree has several kernels: nodes boot %s; --kernel RELEASE takes another one: %s",
		k.Release, strings.Join(others, ", "))}
}

// scanTree is the step that looks through the tree before the long steps. A missing part is an error, a file that
// should not be in an image is a warning.
func (b *builder) scanTree(ctx context.Context) (err error) {
	b.scan, err = rootfs.ScanTree(
		ctx,
		b.root,
		func(n int64) { b.Progress(steps.Progress{Step: StepScan, Done: n, Unit: "files"}) },
	)
	if err != nil {
		return err
	}
	b.Progress(steps.Progress{Step: StepScan, Done: b.scan.Files, Total: b.scan.Files, Unit: "files"})
	leftOut, err := b.leaveOut(ctx)
	if err != nil {
		return err
	}
	if b.extends != nil {
		b.scanExtension()
		return nil
	}
	kernel, err := b.kernelOf()
	lacks, err := b.lacks(kernel, err)
	if err != nil {
		return err // before the long steps
	}
	if err := b.chooseFormat(kernel); err != nil {
		return err
	}
	if b.needs != nil {
		if err := b.needs(ctx, b.driverOptions(kernel)); err != nil {
			return err
		}
	}
	b.result.Provenance.Warnings = slices.Concat(check.Inspect(b.root), lacks, b.otherKernels(kernel), leftOut)
	if b.format == image.Erofs {
		b.result.Provenance.Warnings = append(b.result.Provenance.Warnings, b.scan.Warnings()...)
	}
	for _, w := range b.result.Provenance.Warnings {
		b.Log.Warn("tree has a fault", "fault", w)
		b.Progress(steps.Progress{Step: StepScan, Note: "warning: " + w})
	}
	return nil
}

// lacks reports what the tree must or should have and does not have. k and err are the result of looking for its
// kernel.
func (b *builder) lacks(k kernel.Kernel, err error) (warnings []string, _ error) {
	t := check.Tree{
		Root:               b.root,
		KernelPath:         k.Path,
		KernelArchitecture: k.Architecture,
		AnyInit:            b.anyInit || b.namesInit(),
	}
	var none *kernel.MissingError
	if errors.As(err, &none) {
		t.NoKernel = none.Missing
	} else if err != nil {
		return nil, err
	}
	warnings, b.result.Provenance.Lacks, err = t.Bootable()
	return warnings, err
}

// namesInit reports whether the kernel command line names an init program.
func (b *builder) namesInit() bool {
	args := b.CommandLine
	if b.Recipe != nil {
		args = append(slices.Clone(b.Recipe.CommandLine), args...)
	}
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "init=") })
}

// chooseFormat sets the format of the root file system: the requested one, or the first that the kernel can read. If
// the kernel can read none, packing the drivers reports what is missing.
func (b *builder) chooseFormat(k kernel.Kernel) error {
	can, why := kernel.FileSystems(b.root, k.Release)
	if was := b.formatBefore(k.Release); was != "" && !slices.Contains(can, was) {
		can, why = append(can, was), append(why, "but the version before it is "+was)
	}
	b.format = image.Erofs
	switch {
	case b.Format != "" && !slices.Contains(can, b.Format):
		return &kernel.FormatError{Kernel: k.Release, Format: b.Format, Can: can}
	case b.Format != "":
		b.format = b.Format
	case len(can) > 0:
		b.format = can[0]
	}
	b.Progress(
		steps.Progress{
			Step: StepScan,
			Note: fmt.Sprintf("root file system %s: kernel %s %s", b.format, k.Release, strings.Join(why, ", ")),
		},
	)
	return nil
}

// formatBefore returns the root file system format of the parent version, if the tree still has its kernel: that
// kernel can read it.
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
	data, err := kernel.Read(root, k)
	if err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	w := b.Store.NewWriter()
	defer w.Close()
	id, err := b.counter.Put(ctx, w, data)
	if err != nil {
		return err
	}
	b.manifest.Architecture = k.Architecture
	b.manifest.Kernel = image.Kernel{Release: k.Release, Object: id, Size: int64(len(data))}
	b.Progress(steps.Progress{Step: StepKernel, Note: "kernel " + k.Release})
	memory, err := rawdigest.Open(b.Store)
	if err != nil {
		return err
	}
	drivers := b.early.packed
	if k.Architecture == "amd64" {
		updates, err := initramfs.Microcode(b.early.opt)
		if err != nil {
			return err
		}
		if updates != nil {
			drivers = append([]initramfs.DriverCPIO{{Name: initramfs.MicrocodeName, Data: updates}}, drivers...)
			b.Progress(
				steps.Progress{Step: StepKernel, Note: fmt.Sprintf("processor updates, %d kB", len(updates)/1000)},
			)
		}
	}
	for _, d := range drivers {
		id, err := b.counter.Put(ctx, w, d.Data)
		if err != nil {
			return err
		}
		if d.Raw > 0 {
			memory.Add(d.Digest, chunk.Entry{RawSize: int(d.Raw), StoredSize: len(d.Data), Codec: chunk.Zstd, ID: id})
		}
		b.manifest.Drivers = append(b.manifest.Drivers, image.Driver{Name: d.Name, Object: id, Size: int64(len(d.Data)),
			InsteadOf: d.InsteadOf, For: d.For, PCI: d.PCI})
	}
	return errors.Join(w.Sync(ctx), memory.Save())
}

func (b *builder) driverOptions(k kernel.Kernel) initramfs.DriverOptions {
	more := slices.Clone(b.Drivers)
	if b.Recipe != nil {
		more = append(more, b.Recipe.Drivers...)
	}
	if b.base != nil {
		more = append(more, initramfs.MoreOf(b.base.Manifest)...)
	}
	slices.Sort(more)
	return initramfs.DriverOptions{
		More:         slices.Compact(more),
		Tree:         b.root,
		Release:      k.Release,
		Architecture: k.Architecture,
		Firmware:     b.Firmware,
		FileSystem:   b.format,
		Log:          b.Log,
	}
}

// workName returns the name of the work directory, which depends on what is built.
func (b *builder) workName() string {
	if b.Recipe != nil {
		return "recipe-" + b.Recipe.Key()
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
