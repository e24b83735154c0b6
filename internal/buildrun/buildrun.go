package buildrun

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/build"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/output"
	"pando/internal/terminal"
)

// WorkDir is where unfinished builds are: beside the store, so that there is room.
func WorkDir(data string) string { return filepath.Join(data, "work") }

// Image builds an image and shows how far it is.
func Image(ctx context.Context, opt build.Options, p *terminal.Progress) (build.Result, error) {
	opt.Progress = p.Show
	r, err := build.Image(ctx, opt)
	p.End(err == nil)
	return r, err
}

// WithHint adds a hint to a build's error: finished steps are kept, and what to do about the usual reasons.
func WithHint(err error) error {
	if errors.Is(err, context.Canceled) || exitcode.HintOf(err) != "" {
		return err
	}
	return exitcode.WithHint(err, "the store is as it was; fix that, and the same command goes on from where it can")
}

// PrintResult prints what was built, with notes and warnings.
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

// StepNames describe the steps, until a step has something to count.
var StepNames = map[string]string{
	build.StepTree: "installing or unpacking the files of the image", build.StepScan: "looking through the tree",
	build.StepErofs:  "writing the file system",
	build.StepKernel: "kernel and drivers", build.StepObjects: "compressing and storing", build.StepManifest: "signing",
	build.StepPack: "packing what nodes give each other",
}
