package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"pando/internal/image"
)

const (
	// rawImage is the part of the work directory that holds the raw image, whatever file system it is.
	rawImage = "root.erofs"

	// rootUUID is the UUID of every root file system: an image must not differ by it. Nothing mounts by it.
	rootUUID = "70616e64-6f00-4000-8000-726f6f746673"

	// noSharedXattrs is a number of uses that no attribute reaches: all stay with their inodes. The order of
	// the shared ones depends on the order in which the file system of the tree lists them.
	noSharedXattrs = "1000000000"

	// fixedLongNames is the first erofs-utils that takes names of 255 bytes whole.
	fixedLongNames = "1.8.5"

	erofsUtils = "install erofs-utils (Debian, Ubuntu, Fedora: package erofs-utils)"
)

// rawWriter writes the raw image of a tree.
type rawWriter struct {
	Tree     string
	Format   string // image.Erofs or image.Squashfs
	Progress func(Progress)
	Now      func() time.Time

	work *workDir
	scan treeScan
	by   string   // what wrote it, and of which version
	lost []string // what of the tree the format has no room for
}

// makeRaw writes the raw image, unless one of the same tree is there.
func (b *rawWriter) makeRaw(ctx context.Context) (err error) {
	if b.by, err = b.writer(ctx); err != nil {
		return err
	}
	of := b.scan.Fingerprint + " " + b.by
	if s, ok := b.work.stamped(rawImage, of); ok && fileSize(b.work.file(rawImage)) == s.Size {
		b.Progress(
			Progress{Note: "continuing with the raw image written at " + s.Made.Format(time.DateTime)},
		)
		return nil
	}
	if err := b.work.drop(rawImage); err != nil {
		return err
	}
	if err := b.roomForRaw(); err != nil {
		return err
	}
	if err := b.writeRaw(ctx); err != nil {
		return errors.Join(fullDisk(err, b.work.path), b.work.drop(rawImage))
	}
	if err := b.checkUnchanged(ctx); err != nil {
		return errors.Join(err, b.work.drop(rawImage))
	}
	f, err := os.Open(b.work.file(rawImage))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write raw image: %w", err)
	}
	return b.work.putStamp(rawImage, stamp{Of: of, Made: b.Now(), Size: fileSize(f.Name())})
}

// roomForRaw fails early where the raw image has no room. Holes of the tree are zeros of the image, and take room.
func (b *rawWriter) roomForRaw() error {
	size := b.scan.Bytes
	err := roomFor(b.work.path, size)
	if err != nil && size > b.scan.Bytes-b.scan.Holes && b.scan.Holes > size/2 {
		err = fmt.Errorf(
			"%w; %d MB of it are holes, most of them in %s: leave it out of the tree",
			err,
			b.scan.Holes/1e6,
			shown("/"+b.scan.HoleName),
		)
	}
	return err
}

// writer is what writes the raw image, and of which version: another one may write other bytes.
func (b *rawWriter) writer(ctx context.Context) (string, error) {
	switch b.Format {
	case image.Squashfs:
		return "squashfs " + squashRevision, nil
	}
	version, err := mkfsVersion(ctx)
	if err == nil && b.scan.LongName != "" && compareReleases(version, fixedLongNames) < 0 {
		err = fmt.Errorf("%q: mkfs.erofs %s cuts off names of 255 bytes; shorten it, or install erofs-utils %s",
			b.scan.LongName, version, fixedLongNames)
	}
	return version, err
}

func (b *rawWriter) writeRaw(ctx context.Context) error {
	if b.Format == image.Erofs {
		return b.runMkfs(ctx)
	}
	stop := b.watchSize(b.work.file(rawImage))
	defer stop()
	lost, err := writeSquashfs(ctx, b.Tree, b.work.file(rawImage), b.scan.Newest+1)
	for _, w := range lost {
		b.lost = append(b.lost, w)
		b.Progress(Progress{Note: "warning: " + w})
	}
	return err
}

// runMkfs writes the image and has fsck.erofs look at it. The super block's time is just after the newest
// file's: of SOURCE_DATE_EPOCH mkfs.erofs takes that time, and clamps times that are not before it.
func (b *rawWriter) runMkfs(ctx context.Context) error {
	file := b.work.file(rawImage)
	stop := b.watchSize(file)
	defer stop()
	mkfs := command{
		args: []string{
			"mkfs.erofs", "--quiet", "-Enoinline_data", "-x", noSharedXattrs, "-U", rootUUID, "--exclude-regex=^boot/",
			file, b.Tree,
		},
		env:  []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.scan.Newest+1, 10)},
		hint: erofsUtils,
	}
	if err := mkfs.run(ctx); err != nil {
		return err
	}
	if err := sortXattrs(file); err != nil {
		return err
	}
	return command{args: []string{"fsck.erofs", file}, hint: erofsUtils}.run(ctx)
}

// watchSize reports how much of the image is written. mkfs.erofs does not say.
func (b *rawWriter) watchSize(file string) (stop func()) {
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
					Progress{
						Done:  min(fileSize(file), b.scan.Bytes),
						Total: b.scan.Bytes,
						Unit:  "bytes",
					},
				)
			}
		}
	}()
	return func() { close(done); <-ended }
}

var versionLine = regexp.MustCompile(`mkfs\.erofs(?: \(erofs-utils\))? ([0-9][^ ]*)`)

// mkfsVersion is the version of mkfs.erofs. Version 1.5 knows no -V, but prints it above its errors.
func mkfsVersion(ctx context.Context) (string, error) {
	for _, arg := range []string{"-V", "--help"} {
		var version string
		cmd := command{args: []string{"mkfs.erofs", arg}, hint: erofsUtils, each: func(line string) {
			if m := versionLine.FindStringSubmatch(line); m != nil && version == "" {
				version = m[1]
			}
		}}
		err := cmd.run(ctx)
		if version != "" {
			return version, nil
		}
		var failed *CommandError
		if err != nil && !errors.As(err, &failed) {
			return "", err
		}
	}
	return "unknown", nil
}

// checkUnchanged fails if the tree changed since it was scanned.
func (b *rawWriter) checkUnchanged(ctx context.Context) error {
	again, err := lookThrough(ctx, b.Tree, func(int64) {})
	if err != nil {
		return err
	}
	if again.Fingerprint != b.scan.Fingerprint {
		return fmt.Errorf("the tree %s changed while it was read (%d files before, %d after); "+
			"stop what writes there, or build from a copy or a snapshot", b.Tree, b.scan.Files, again.Files)
	}
	return nil
}
