package updates

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"pando/internal/bench"
	"pando/internal/build"
)

// wholeName is the name of the way that writes a whole image each time.
const wholeName = "squashfs-zstd, whole"

// updateWay is a way to store versions of a tree in a directory.
type updateWay struct {
	name  string
	daily bool // it is measured for each day
	// stores one more version, and returns how many bytes it wrote
	add func(ctx context.Context, dir, tree string) (int64, error)
}

// updateWays returns all ways, Pando's first.
func updateWays() []updateWay {
	return []updateWay{
		{bench.PandoWay, true, addVersion},
		{"casync, its default of 64 KiB", true, casync()},
		{"casync, 16 KiB", false, casync("--chunk-size=16384")},
		{wholeName, false, wholeSquash},
	}
}

// addVersion builds a version with Pando. The bytes of the first version do not include kernel and drivers, which no
// later version changes.
func addVersion(ctx context.Context, dir, tree string) (int64, error) {
	_, err := os.Stat(filepath.Join(dir, "store"))
	r, failed := bench.Build(ctx, dir, "", func(o *build.Options) { o.Recipe, o.FromDir = nil, tree })
	if failed != nil {
		return 0, failed
	}
	if os.IsNotExist(err) {
		return r.Manifest.Sizes.Stored, nil
	}
	return r.NewBytes, nil
}

// casync returns a way that makes an archive of a tree: zstd-compressed chunks and an index.
func casync(args ...string) func(ctx context.Context, dir, tree string) (int64, error) {
	return func(ctx context.Context, dir, tree string) (int64, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
		before, count, err := sizeOfTree(dir)
		if err != nil {
			return 0, err
		}
		name := filepath.Join(dir, strconv.Itoa(count)+".caidx")
		if err := bench.Run(ctx, "casync",
			append(append([]string{"make", "--store=" + filepath.Join(dir, "store.castr")}, args...), name,
				tree)...); err != nil {
			return 0, fmt.Errorf("%w (Debian's package casync has it)", err)
		}
		after, _, err := sizeOfTree(dir)
		return after - before, err
	}
}

// wholeSquash makes a squashfs of the whole tree.
func wholeSquash(ctx context.Context, dir, tree string) (int64, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	name := filepath.Join(dir, "squash")
	if err := bench.Run(ctx, "mksquashfs", tree, name, "-comp", "zstd", "-noappend", "-no-progress",
		"-quiet"); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// sizeOfTree adds up the sizes of the files below a directory.
func sizeOfTree(dir string) (bytes int64, files int, err error) {
	err = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		info, err := f.Info()
		if err == nil {
			bytes, files = bytes+info.Size(), files+1
		}
		return err
	})
	return bytes, files, err
}
