package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"pando/internal/command"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

const (
	// rawImage is the file of the work directory that holds the raw image, for any file system.
	rawImage = "root.erofs"

	// rootUUID is the UUID of every root file system. It is fixed, so that the same tree gives the same bytes.
	// Nothing mounts by it.
	rootUUID = "70616e64-6f00-4000-8000-726f6f746673"

	// noSharedXattrs is a number of uses that no attribute reaches, so that mkfs.erofs stores all attributes with
	// their inodes. The order of shared ones would depend on the file system of the tree.
	noSharedXattrs = "1000000000"

	// FixedLongNames is the first erofs-utils version that does not truncate names of 255 bytes.
	FixedLongNames = "1.8.5"

	erofsUtils = "install erofs-utils (Debian, Ubuntu, Fedora: package erofs-utils)"
)

// Writer writes the raw image of a tree.
type Writer struct {
	Tree     string
	Format   string // image.Erofs or image.Squashfs
	Progress func(steps.Progress)
	Now      func() time.Time

	Work *workdir.Dir
	Scan Scan
	By   string   // program that wrote the image, with its version
	Lost []string // what the format cannot store of the tree
}

// Write writes the raw image, unless the work directory already has one of the same tree.
func (b *Writer) Write(ctx context.Context) (err error) {
	if b.By, err = b.writer(ctx); err != nil {
		return err
	}
	of := b.Scan.Fingerprint + " " + b.By
	if s, ok := b.Work.Stamped(rawImage, of); ok && workdir.FileSize(b.Work.File(rawImage)) == s.Size {
		b.Progress(
			steps.Progress{Note: "continuing with the raw image written at " + s.Made.Format(time.DateTime)},
		)
		return nil
	}
	if err := b.Work.Drop(rawImage); err != nil {
		return err
	}
	if err := b.roomForRaw(); err != nil {
		return err
	}
	if err := b.writeRaw(ctx); err != nil {
		return errors.Join(workdir.FullDisk(err, b.Work.Path), b.Work.Drop(rawImage))
	}
	if err := b.checkUnchanged(ctx); err != nil {
		return errors.Join(err, b.Work.Drop(rawImage))
	}
	f, err := os.Open(b.Work.File(rawImage))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write raw image: %w", err)
	}
	return b.Work.PutStamp(rawImage, workdir.Stamp{Of: of, Made: b.Now(), Size: workdir.FileSize(f.Name())})
}

// roomForRaw returns an error if the disk has no room for the raw image. Holes in the tree's files take room there:
// they are written as zeros.
func (b *Writer) roomForRaw() error {
	size := b.Scan.Bytes
	err := workdir.CheckRoom(b.Work.Path, size)
	if err != nil && size > b.Scan.Bytes-b.Scan.Holes && b.Scan.Holes > size/2 {
		err = fmt.Errorf(
			"%w; %d MB of it are holes, most of them in %s: leave it out of the tree",
			err,
			b.Scan.Holes/1e6,
			systree.Shown("/"+b.Scan.HoleName),
		)
	}
	return err
}

// writer returns the program that writes the raw image, with its version. Another program or version may write other
// bytes.
func (b *Writer) writer(ctx context.Context) (string, error) {
	if b.Format == image.Squashfs {
		return "squashfs " + imagefs.SquashfsRevision, nil
	}
	version, err := MkfsVersion(ctx)
	if err == nil && b.Scan.LongName != "" && systree.CompareReleases(version, FixedLongNames) < 0 {
		err = fmt.Errorf("%q: mkfs.erofs %s cuts off names of 255 bytes; shorten it, or install erofs-utils %s",
			b.Scan.LongName, version, FixedLongNames)
	}
	return version, err
}

func (b *Writer) writeRaw(ctx context.Context) error {
	if b.Format == image.Erofs {
		return b.RunMkfs(ctx)
	}
	stop := b.watchSize(b.Work.File(rawImage))
	defer stop()
	lost, err := imagefs.WriteSquashfs(ctx, b.Tree, b.Work.File(rawImage), b.Scan.Newest+1)
	for _, w := range lost {
		b.Lost = append(b.Lost, w)
		b.Progress(steps.Progress{Note: "warning: " + w})
	}
	return err
}

// RunMkfs writes the image and checks it with fsck.erofs. SOURCE_DATE_EPOCH is one second after the newest file:
// mkfs.erofs uses it as the super block's time, and clamps the times of files that are not older.
func (b *Writer) RunMkfs(ctx context.Context) error {
	file := b.Work.File(rawImage)
	stop := b.watchSize(file)
	defer stop()
	mkfs := command.Command{
		Args: []string{
			"mkfs.erofs", "--quiet", "-Enoinline_data", "-x", noSharedXattrs, "-U", rootUUID, "--exclude-regex=^boot/",
			file, b.Tree,
		},
		Env:  []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.Scan.Newest+1, 10)},
		Hint: erofsUtils,
	}
	if err := mkfs.Run(ctx); err != nil {
		return err
	}
	if err := imagefs.SortXattrs(file); err != nil {
		return err
	}
	return command.Command{Args: []string{"fsck.erofs", file}, Hint: erofsUtils}.Run(ctx)
}

// watchSize reports progress by the size of the image file, because mkfs.erofs reports none.
func (b *Writer) watchSize(file string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				b.Progress(
					steps.Progress{
						Done:  min(workdir.FileSize(file), b.Scan.Bytes),
						Total: b.Scan.Bytes,
						Unit:  "bytes",
					},
				)
			}
		}
	}()
	return func() { close(done); <-ended }
}

var versionLine = regexp.MustCompile(`mkfs\.erofs(?: \(erofs-utils\))? ([0-9][^ ]*)`)

// MkfsVersion returns the version of mkfs.erofs. Version 1.5 does not know -V, but prints its version before the
// error.
func MkfsVersion(ctx context.Context) (string, error) {
	for _, arg := range []string{"-V", "--help"} {
		var version string
		cmd := command.Command{Args: []string{"mkfs.erofs", arg}, Hint: erofsUtils, Each: func(line string) {
			if m := versionLine.FindStringSubmatch(line); m != nil && version == "" {
				version = m[1]
			}
		}}
		err := cmd.Run(ctx)
		if version != "" {
			return version, nil
		}
		var failed *command.Error
		if err != nil && !errors.As(err, &failed) {
			return "", err
		}
	}
	return "unknown", nil
}

// checkUnchanged returns an error if the tree changed since the scan.
func (b *Writer) checkUnchanged(ctx context.Context) error {
	again, err := ScanTree(ctx, b.Tree, func(int64) {})
	if err != nil {
		return err
	}
	if again.Fingerprint != b.Scan.Fingerprint {
		return fmt.Errorf("the tree %s changed while it was read (%d files before, %d after); "+
			"stop what writes there, or build from a copy or a snapshot", b.Tree, b.Scan.Files, again.Files)
	}
	return nil
}
