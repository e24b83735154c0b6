package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"pando/internal/build/base"
	"pando/internal/build/initramfs"
	"pando/internal/build/kernel"
	"pando/internal/fleet"
	"pando/internal/mount"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// ChangeOptions says which version to change, and how.
type ChangeOptions struct {
	Image   string        // its name, for people
	Version fleet.Digest  // the version of which a copy is changed
	Command mount.Command // runs in the copy; Root, Tmp and Hostname are set by Change
	Resume  bool          // continue with a changed copy that an earlier call could not store
	Fresh   bool          // discard such a copy

	// Keep is called if the command ends with a non-zero status, and decides whether a version is still made. nil: no
	// version is made.
	Keep func(status int) bool

	// Build says where the new version goes. It has no source; its command line is appended to that of the version.
	Build Options
}

// UnfinishedError means that a changed copy could not be made into a version and was kept.
type UnfinishedError struct {
	Image string
	Path  string
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("an earlier change of %s could not be stored and is kept in %s", e.Image, e.Path)
}

// Change runs a command in a writable copy of a version and makes a version of the result. If the command fails,
// Change returns its error and makes nothing. The new tree is the old one with the command's changes, without the
// files that base.Copy.Clean removes. The old version does not change.
func Change(ctx context.Context, opt ChangeOptions) (Result, error) {
	c := &change{ChangeOptions: opt}
	if c.Build.Progress == nil {
		c.Build.Progress = func(steps.Progress) {}
	}
	result, err := c.run(ctx)
	if err != nil {
		return result, fmt.Errorf("change image %s: %w", opt.Image, err)
	}
	return result, nil
}

type change struct {
	ChangeOptions
	work *workdir.Dir
	base *base.Copy
}

func (c *change) run(ctx context.Context) (result Result, err error) {
	if os.Geteuid() != 0 {
		return result, errors.New("it must run as root: it mounts file systems")
	}
	if c.work, err = workdir.Open(ctx, c.Build.Work, "shell-"+c.Image, Revision,
		within(StepTree, c.Build.Progress)); err != nil {
		return result, err
	}
	defer c.work.Close()
	if err := c.clear(); err != nil {
		return result, err
	}
	kept := c.Resume
	defer func() {
		if !kept {
			err = errors.Join(err, c.work.Remove())
		}
	}()
	if c.base, err = base.Open(ctx, c.work, c.Build.Store, c.Version, within(StepTree, c.Build.Progress)); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, c.base.Close()) }()
	if err := c.inside(ctx); err != nil {
		return result, err
	}
	if err := c.work.PutStamp(workdir.ChangedPart, workdir.Stamp{Of: string(c.Version), Made: time.Now()}); err != nil {
		return result, err
	}
	result, err = c.build(ctx)
	kept = err != nil // the changes may be hours of somebody's work
	return result, err
}

// clear removes the work of an earlier change, unless this change resumes it.
func (c *change) clear() error {
	_, whole := c.work.Stamped(workdir.ChangedPart, string(c.Version))
	switch {
	case whole && c.Resume:
		return nil
	case c.Resume:
		return fmt.Errorf("there is no earlier change of version %s to go on with", c.Version.Short())
	case systree.Exists(c.work.File(workdir.ChangedPart+".stamp")) && !c.Fresh:
		return &UnfinishedError{c.Image, c.work.File(workdir.ChangedPart)}
	}
	return c.drop()
}

func (c *change) drop() error {
	for _, part := range []string{workdir.ChangedPart, "overlay", "tmp"} {
		if err := c.work.Drop(part); err != nil {
			return err
		}
	}
	return nil
}

// inside runs the command in the copy.
func (c *change) inside(ctx context.Context) error {
	command := c.Command
	command.Root, command.Hostname, command.Tmp = c.base.Root, c.Image, c.work.File("tmp")
	if err := os.MkdirAll(command.Tmp, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(command.Tmp, 0o777|os.ModeSticky); err != nil {
		return err
	}
	c.Build.Progress(steps.Progress{Step: StepTree, Note: "inside " + c.Image, Held: true})
	err := command.Run(ctx)
	var exit *mount.ExitError
	if errors.As(err, &exit) && c.Keep != nil && c.Keep(exit.Code) {
		err = nil
	}
	if err != nil {
		return err
	}
	return c.base.Clean(within(StepTree, c.Build.Progress))
}

// build makes a version of the changed copy.
func (c *change) build(ctx context.Context) (Result, error) {
	opt := c.Build
	if opt.Kernel == "" {
		opt.Kernel = keptKernel(c.base)
	}
	if k, err := kernel.FindRelease(c.base.Root, opt.Kernel); err == nil {
		was := c.base.Manifest
		can, _ := kernel.FileSystems(c.base.Root, k.Release)
		if k.Release == was.Kernel.Release || slices.Contains(can, was.Root.FileSystem) {
			opt.Format = was.Root.FileSystem // the same as before, unless the kernel that can read it was removed
		}
	}
	opt.FromDir, opt.Parent, opt.Command = c.base.Root, c.Version, c.Command.Args
	opt.CommandLine = append(append([]string{}, c.base.Manifest.CommandLine...), opt.CommandLine...)
	opt.Drivers = append(initramfs.MoreOf(c.base.Manifest), opt.Drivers...)
	return Image(ctx, opt)
}
