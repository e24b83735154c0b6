package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/build/base"
	"pando/internal/build/extension"
	"pando/internal/build/packer"
	"pando/internal/build/recipe"
	"pando/internal/command"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/mount"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// ExtendOptions says what the extension of a version contains. Exactly one of Packages, Tree and Command is set.
type ExtendOptions struct {
	Name string       // of the extension
	Base fleet.Digest // version that the extension is made for; it fits no other

	Packages []string      // package names, as apt-get knows them
	Tree     string        // directory whose usr and opt are copied
	Command  mount.Command // runs in a copy of the base; Root, Tmp and Hostname are set by Extend

	Force bool // make the extension even if something that it needs cannot be in it

	// Build says where the version goes. It has no source.
	Build Options
}

// Extend makes an extension of the version Base, which running nodes mount over that version: the changes that
// packages, a directory or a command make in /usr and /opt. Changes in other directories become warnings in its
// provenance.
func Extend(ctx context.Context, opt ExtendOptions) (Result, error) {
	e := &extend{ExtendOptions: opt}
	if e.Build.Progress == nil {
		e.Build.Progress = func(steps.Progress) {}
	}
	result, err := e.run(ctx)
	if err != nil {
		return result, offline(fmt.Errorf("extend %s with %s: %w", opt.Base.Short(), opt.Name, err), true)
	}
	return result, nil
}

type extend struct {
	ExtendOptions
	work *workdir.Dir
	base *base.Copy
	made extension.Extension
}

// extendParts are the parts of the work directory that each run makes again.
func extendParts() []string { return []string{"upper", "overlay", "tmp", "extension"} }

// at returns the report function for a step.
func (e *extend) at(step string) func(steps.Progress) { return within(step, e.Build.Progress) }

func (e *extend) run(ctx context.Context) (result Result, err error) {
	if err := e.check(); err != nil {
		return result, err
	}
	if e.work, err = workdir.Open(ctx, e.Build.Work, "extend-"+e.Name, Revision, e.at(StepTree)); err != nil {
		return result, err
	}
	defer e.work.Close()
	for _, part := range extendParts() {
		if err := e.work.Drop(part); err != nil {
			return result, err
		}
	}
	begin := time.Now().Truncate(time.Second)
	if e.base, err = base.Open(ctx, e.work, e.Build.Store, e.Base, e.at(StepTree)); err != nil {
		return result, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, e.base.Close())
		}
	}()
	if e.base.Manifest.IsExtension() {
		return result, fmt.Errorf("%s is an extension itself: give the image that nodes boot", e.Base.Short())
	}
	if err := e.fill(ctx); err != nil {
		return result, workdir.FullDisk(err, e.work.Path)
	}
	if err := e.base.Clean(e.at(StepTree)); err != nil {
		return result, err
	}
	e.made.Name, e.made.Force = e.Name, e.Force
	e.made.Root, e.made.Lower, e.made.Upper = e.base.Root, e.base.Lower, e.base.Upper
	if err := e.made.Harvest(begin); err != nil {
		return result, err
	}
	tree := e.work.File("extension")
	closed = true
	if err := e.base.Close(); err != nil {
		return result, err
	}
	if err := extension.TakeOut(e.base.Upper, tree); err != nil {
		return result, err
	}
	if result, err = e.build(ctx, tree); err != nil {
		return result, err
	}
	if err := e.pack(ctx, result); err != nil {
		return result, workdir.FullDisk(err, e.work.Path)
	}
	return result, e.work.Remove()
}

// pack makes the boot pack from which nodes share the extension. A version that is signed later, on the machine that
// has the key, gets none: nodes would not accept it.
func (e *extend) pack(ctx context.Context, r Result) error {
	has, err := e.Build.Store.Packs(r.Version)
	if err != nil || len(e.Build.Keys) == 0 || len(has) > 0 && r.Existed {
		return err
	}
	tell := func(done int64) {
		e.Build.Progress(steps.Progress{Step: StepPack, Done: done, Total: r.Manifest.Root.Size, Unit: "bytes"})
	}
	tell(0)
	_, err = packer.MakeWhole(
		ctx,
		packer.Options{
			Store:    e.Build.Store,
			Keys:     e.Build.Keys,
			Version:  r.Version,
			Manifest: r.Manifest,
			Done:     tell,
			Log:      e.Build.Log,
			Now:      e.Build.Now,
		},
	)
	return err
}

func (e *extend) check() error {
	if os.Geteuid() != 0 {
		return errors.New("it must run as root: it mounts file systems")
	}
	if err := fleet.ValidName("extension", e.Name); err != nil {
		return err
	}
	ways := 0
	for _, given := range []bool{len(e.Packages) > 0, e.Tree != "", len(e.Command.Args) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("give one of packages, a directory and a command, not %d", ways)
	}
	return nil
}

// fill puts the content of the extension into the copy of the base.
func (e *extend) fill(ctx context.Context) error {
	own := len(e.Packages) == 0 && e.Tree == "" // a command, which may want to read from the terminal
	e.Build.Progress(steps.Progress{Step: StepTree, Note: "over " + e.Base.Short(), Held: own})
	switch {
	case len(e.Packages) > 0:
		if !systree.Exists(e.base.Root + "/usr/bin/apt-get") {
			return errors.New("packages: the base has no apt-get; install what it needs by a command (--)")
		}
		report := e.at(StepTree)
		return recipe.RunInside(ctx, e.base.Root, e.work.File("tmp"), recipe.InstallPackages(e.Packages), nil,
			func(line string) { report(steps.Progress{Note: line}) })
	case e.Tree != "":
		return e.copyTree(ctx)
	}
	command := e.Command
	command.Root, command.Hostname, command.Tmp = e.base.Root, e.Name, e.work.File("tmp")
	if err := os.MkdirAll(command.Tmp, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(command.Tmp, 0o777|os.ModeSticky); err != nil {
		return err
	}
	return command.Run(ctx)
}

// copyTree copies usr and opt of a directory and reports its other entries.
func (e *extend) copyTree(ctx context.Context) error {
	entries, err := os.ReadDir(e.Tree)
	if err != nil {
		return err
	}
	found := false
	for _, d := range entries {
		if d.Name() != "usr" && d.Name() != "opt" {
			e.made.Left = append(
				e.made.Left,
				extension.Left{Path: "/" + d.Name(), Why: "an extension has /usr and /opt only"},
			)
			continue
		}
		found = true
		out, err := exec.CommandContext(ctx, "cp", "-a", "--no-target-directory", filepath.Join(e.Tree, d.Name()),
			filepath.Join(e.base.Root, d.Name())).
			CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy %s: %w: %s", d.Name(), command.Ended(ctx, err), strings.TrimSpace(string(out)))
		}
	}
	if !found {
		return fmt.Errorf("%s has neither usr nor opt", e.Tree)
	}
	return nil
}

// build makes a version of the extension's tree.
func (e *extend) build(ctx context.Context, tree string) (Result, error) {
	opt := e.Build
	opt.FromDir, opt.Format = tree, e.base.Manifest.Root.FileSystem // the base's kernel can read this format
	opt.Command = e.Command.Args
	if len(e.Packages) > 0 {
		opt.Command = append([]string{"apt-get", "install"}, e.Packages...)
	}
	opt.extends = &extends{
		Extends:      image.Extends{Name: e.Name, Base: e.Base},
		architecture: e.base.Manifest.Architecture,
		packages:     e.made.New,
		tree:         e.Tree,
	}
	for _, l := range e.made.Left {
		opt.extends.warnings = append(opt.extends.warnings, l.String())
	}
	return Image(ctx, opt)
}

// extends is what a build knows about the extension that it makes.
type extends struct {
	image.Extends
	architecture string
	packages     []image.Package // packages that the base does not have in this version
	tree         string          // directory that the extension was made from; "" if none
	warnings     []string
}

// scanExtension is scanTree for the tree of an extension, which has neither kernel nor init.
func (b *builder) scanExtension() {
	b.format, b.manifest.Architecture, b.manifest.Extends = b.Format, b.extends.architecture, &b.extends.Extends
	b.result.Provenance.Warnings = b.extends.warnings
	for _, w := range b.extends.warnings {
		b.Progress(steps.Progress{Step: StepScan, Note: "warning: " + w})
	}
}
