package extend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/systemd"
)

// Up to 1/aheadPart of the memory is filled with an extension's files before it is laid over the root.
const aheadPart = 32

// apartName is the directory below the run directory where extensions are mounted first.
const apartName = "extensions"

// aheadMost bounds the time for reading ahead.
const aheadMost = time.Minute

// lay attaches and detaches extensions. It first mounts the new ones below apartName, where systemd-sysext does not
// see them: if one fails, nothing has changed.
func (e *Extender) lay(ctx context.Context, source extension.Source, gets, loses []fleet.Extension) error {
	apart := filepath.Join(e.dir, apartName)
	var fresh []extension.Attached
	fail := func(err error) error {
		for _, x := range fresh {
			_ = unix.Unmount(filepath.Join(apart, x.Name), unix.MNT_DETACH) // Retire detaches the device later
			e.leave(x)
		}
		return err
	}
	for _, want := range gets {
		x, err := source.Attach(ctx, want, apart)
		if err != nil {
			return fail(err)
		}
		fresh = append(fresh, x)
		readAhead(ctx, filepath.Join(apart, want.Name))
	}
	if e.agent.Leaving() {
		return fail(errors.New("the node is going to its next boot"))
	}
	return e.swap(ctx, apart, fresh, loses)
}

// swap removes extensions from systemd-sysext's directory, adds others, and makes systemd-sysext lay them over the
// root.
func (e *Extender) swap(ctx context.Context, apart string, fresh []extension.Attached, loses []fleet.Extension) error {
	for _, x := range e.without(loses) {
		for _, u := range x.Units {
			_, _ = systemd.Systemctl(ctx, "stop", u) // a unit that does not stop keeps its open files
		}
		if err := unix.Unmount(x.Place(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", x.Place(), err)
		}
		_ = os.Remove(x.Place()) // a left-over empty directory does no harm
		e.leave(x)
	}
	e.add(fresh)
	e.keepExtensions()
	for _, x := range fresh {
		if err := x.MoveFrom(filepath.Join(apart, x.Name)); err != nil {
			return e.withdraw(ctx, fresh, fmt.Errorf("mount %s: %w", x.Place(), err))
		}
	}
	if out, err := exec.CommandContext(ctx, "systemd-sysext", "refresh").CombinedOutput(); err != nil {
		return e.withdraw(ctx, fresh, fmt.Errorf("systemd-sysext refresh: %w: %s", err, strings.TrimSpace(string(out))))
	}
	if _, err := systemd.Systemctl(ctx, "daemon-reload"); err != nil {
		e.logf("daemon-reload: %v", err)
	}
	for _, x := range fresh {
		for _, u := range x.Units {
			if _, err := systemd.Systemctl(ctx, "--no-block", "start", u); err != nil {
				e.agent.Info("extension "+x.Name+": "+u+" was not started: "+err.Error(), "")
			}
		}
	}
	return nil
}

// withdraw removes extensions again that could not be laid over the root.
func (e *Extender) withdraw(ctx context.Context, fresh []extension.Attached, why error) error {
	for _, x := range e.without(extension.Listed(fresh)) {
		_ = unix.Unmount(filepath.Join(e.dir, apartName, x.Name), unix.MNT_DETACH) // it is mounted on one of the two
		_ = unix.Unmount(x.Place(), unix.MNT_DETACH)
		_ = os.Remove(x.Place())
		e.leave(x)
	}
	e.keepExtensions()
	if err := exec.CommandContext(ctx, "systemd-sysext", "refresh").Run(); err != nil {
		return errors.Join(why, fmt.Errorf("and the others cannot be restored: %w", err))
	}
	return why
}

// readAhead reads files of an extension into memory, so that its programs start quickly.
func readAhead(ctx context.Context, place string) {
	ctx, cancel := context.WithTimeout(ctx, aheadMost)
	defer cancel()
	left := hardware.Memory() / aheadPart
	_ = filepath.WalkDir(place, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil || left <= 0 {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // unreadable files are skipped
		}
		f, err := os.Open(path)
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		defer f.Close()
		n, _ := io.CopyN(io.Discard, f, left)
		left -= n
		return nil
	})
}
