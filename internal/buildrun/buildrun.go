package buildrun

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pando/internal/build"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/output"
	"pando/internal/terminal"
)

// WorkDir returns the directory of unfinished builds. It is beside the store, on the same file system.
func WorkDir(data string) string { return filepath.Join(data, "work") }

// Image builds an image and shows progress.
func Image(ctx context.Context, opt build.Options, p *terminal.Progress) (build.Result, error) {
	opt.Progress = p.Show
	r, err := build.Image(ctx, opt)
	p.End(err == nil)
	return r, err
}

// WithHint adds a hint to a build's error: that finished steps are kept, and what to do about frequent causes.
func WithHint(err error) error {
	if errors.Is(err, context.Canceled) || exitcode.HintOf(err) != "" {
		return err
	}
	return exitcode.WithHint(err, "the store is as it was; fix that, and the same command goes on from where it can")
}

// PrintResult prints the result of a build, with notes and warnings.
func PrintResult(w io.Writer, name string, r build.Result, took time.Duration) {
	what := "new version"
	if r.Existed {
		what = "the version that was there already"
	}
	m := r.Manifest
	drivers := image.DriversSize(m.AllDrivers())
	pairs := []string{"image", name + ":" + fleet.LatestTag, "version", string(r.Version) + ", " + what,
		"root", output.Size(m.Root.Size) + " raw, " + output.Size(m.Sizes.Stored) + " stored, " + m.Root.FileSystem,
		"kernel", m.Kernel.Release + ", " + output.Size(m.Kernel.Size) + ", drivers " + output.Size(drivers),
		"new in the " +
			"store", output.Size(r.NewBytes), "took", output.Span(took)}
	if e := m.Extends; e != nil {
		pairs[6], pairs[7] = "extends", string(e.Base)
	}
	var notes []string
	if o := r.Provenance.Origin; o != nil {
		pairs, notes = append(pairs, "made from", strings.TrimSpace(o.Name+"  "+o.Digest)), o.Notes
	}
	output.Fields(w, pairs...)
	for _, n := range output.Counted(notes) {
		output.Fprintf(w, "note: %s\n", n)
	}
	for _, n := range output.Counted(r.Provenance.Warnings) {
		output.Fprintf(w, "warning: %s\n", n)
	}
}

// Steps returns the steps of an image's build, for people.
func Steps() []terminal.Step {
	return []terminal.Step{
		{Name: build.StepTree, Label: "files", Does: "installing packages, or unpacking what the image is made from"},
		{Name: build.StepScan, Label: "check", Does: "looking through the files"},
		{Name: build.StepErofs, Label: "root", Does: "writing the root file system"},
		{Name: build.StepKernel, Label: "kernel", Does: "storing kernel and drivers"},
		{Name: build.StepObjects, Label: "compress", Does: "compressing and storing the root"},
		{Name: build.StepManifest, Label: "sign", Does: "signing the version"},
	}
}

// ExtensionSteps returns the steps of an extension's build, for people.
func ExtensionSteps() []terminal.Step {
	all := slices.DeleteFunc(Steps(), func(s terminal.Step) bool { return s.Name == build.StepKernel })
	return append(all, terminal.Step{Name: build.StepPack, Label: "pack", Does: "packing what nodes give each other"})
}
