package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/mount"
)

// A recipe that begins with nothing is made in layers. The base is what is installed: suite, repositories,
// packages, kernel. Files, settings and each command are steps above it, each with what it changed in a directory
// of its own, the next one on top. What a recipe has in common with one that was built before is taken from there:
// the base as long as the archive has nothing newer for it, a step for a day and as long as the base, all steps
// before it and the archive's lists are the same.
//
// All layers of one base are in one directory beside those of builds, which has its lock while a build uses it.
// `pando store gc` removes it when no build used it for a day.

const (
	maxLayers = 4  // such directories that stay
	maxSteps  = 24 // layers above a base; mount(2) takes names of 4 KB

	baseTree  = "tree"
	stepPart  = "step-"
	stepUpper = "step.new"

	changesPart = "upper" // of a build: what changed above all layers
)

// layers are those of one base.
type layers struct {
	*workDir
	made  stamp    // of the base
	lists string   // digest of what the archive's lists are
	upper []string // of the steps so far, the first one first
}

// base is the part of a recipe that is installed.
func (r *Recipe) base() *Recipe {
	return &Recipe{
		Name:         r.Name,
		Suite:        r.Suite,
		Architecture: r.Architecture,
		Components:   r.Components,
		Mirrors:      r.Mirrors,
		Packages:     r.Packages,
		Repositories: r.Repositories,
		Kernel:       r.Kernel,
	}
}

// installer makes the tree of a recipe: it installs Debian's packages with mmdebstrap, and runs what the recipe says in
// what was installed, or in a tree that exists.
type installer struct {
	Recipe   *Recipe
	Parent   string // directory with the work directories of all builds; layers lie there
	Log      *slog.Logger
	Progress func(Progress)
	Now      func() time.Time
	MaxAge   time.Duration // of layers above the base, and of a base whose archive cannot be asked
	Fresh    bool          // install again, also where the base of the layers is as new as the archive
	Revision int           // of the build; layers of another one are not used

	// What gives the tree its kernel and returns the release, and what names it. nil: the recipe installs one.
	GiveKernel func(ctx context.Context, tree string) (release string, err error)
	KernelKey  string

	work   *workDir    // of this build
	root   string      // the tree
	kernel string      // release of the kernel that the tree was given; "": it has one
	layers *layers     // that the tree is made of; nil: it is not
	above  mount.Stack // the tree, where it is made of layers
}

// close takes the mounts away that the tree is made of.
func (b *installer) close() error {
	err := b.above.Close()
	if b.layers != nil {
		b.layers.close()
	}
	return err
}

// makeLayers makes the tree of a recipe that begins with nothing: what is there already, then what is not.
func (b *installer) makeLayers(ctx context.Context) (err error) {
	of := b.Recipe.base().key()
	w, err := openWork(ctx, b.Parent, layerPrefix+of, b.Revision, b.Progress)
	if err != nil {
		return err
	}
	b.layers = &layers{workDir: w}
	if err := b.makeBase(ctx, of+b.KernelKey); err != nil {
		return err
	}
	b.kernel = b.layers.made.Kernel
	top, err := b.makeSteps(ctx)
	if err != nil {
		return fullDisk(err, b.work.path)
	}
	if err := b.joinLayers(top); err != nil {
		return err
	}
	return leastUsed(b.Parent, maxLayers)
}

// makeBase takes the base that is there, or installs it.
func (b *installer) makeBase(ctx context.Context, of string) error {
	l := b.layers
	made, whole := l.stamped(baseTree, of)
	if whole && !b.Fresh && b.current(ctx, made) {
		b.Progress(Progress{Note: "packages as installed at " + made.Made.Format(time.DateTime)})
	} else {
		if err := l.clear(); err != nil {
			return err
		}
		if err := b.install(ctx, b.Recipe.base(), l.file(baseTree), l.file(aptLists)); err != nil {
			return err
		}
		if err := syncTree(l.path); err != nil { // the stamp is durable by itself; what it vouches for must be before
			return fmt.Errorf("write tree: %w", err)
		}
		made = stamp{Of: of, Made: b.Now(), Kernel: b.kernel}
	}
	l.made = made
	err := l.makeAptLayer() // each time: apt fetched lists
	if err != nil {
		return err
	}
	if l.lists, err = listsDigest(l.file(aptLists)); err != nil {
		return err
	}
	return l.putStamp(baseTree, made) // again: it says when it was used last
}

// clear removes all layers.
func (l *layers) clear() error {
	parts, err := filepath.Glob(l.file("*"))
	if err != nil {
		return err
	}
	slices.Reverse(parts) // "tree.stamp" goes before "tree"
	for _, p := range parts {
		if filepath.Base(p) == "lock" {
			continue
		}
		if err := removeTree(p); err != nil {
			return err
		}
	}
	return nil
}

// makeSteps takes the steps that are there, and makes those after the first that is not. It returns the key of the
// last.
func (b *installer) makeSteps(ctx context.Context) (key string, err error) {
	l := b.layers
	if err := l.dropOld(b.Now().Add(-b.MaxAge)); err != nil {
		return "", err
	}
	key, known := layerKey(strconv.FormatInt(l.made.Made.UnixNano(), 36), l.lists), true
	for _, s := range b.Recipe.steps() {
		key = layerKey(key, s.key)
		part := stepPart + key
		if known {
			_, known = l.stamped(part, key)
		}
		if known {
			b.Progress(Progress{Note: "unchanged: " + s.name})
		} else if err := b.makeStep(ctx, s, part, key); err != nil {
			return "", err
		}
		l.upper = append(l.upper, l.file(part))
	}
	return key, nil
}

// dropOld removes the steps that are older than a day, and what an interrupted one left.
func (l *layers) dropOld(before time.Time) error {
	parts, err := filepath.Glob(l.file(stepPart + "*.stamp"))
	if err != nil {
		return err
	}
	for _, p := range parts {
		info, err := os.Stat(p)
		if err == nil && info.ModTime().Before(before) {
			err = l.drop(strings.TrimSuffix(filepath.Base(p), ".stamp"))
		}
		if err != nil {
			return err
		}
	}
	return l.drop(stepUpper)
}

// makeStep runs a step above those before it.
func (b *installer) makeStep(ctx context.Context, s recipeStep, part, key string) (err error) {
	l := b.layers
	b.Progress(Progress{Note: s.name})
	for _, dir := range []string{part, stepUpper} {
		if err := l.drop(dir); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	if err := b.overlay(l.file(stepUpper), l.file(aptPart)); err != nil {
		return err
	}
	err = s.do(ctx, b)
	if err == nil {
		err = settleChanged(b.root, l.file(stepUpper), aptPlace, begin)
	}
	if err = errors.Join(err, b.above.Close()); err != nil {
		return errors.Join(err, l.drop(stepUpper))
	}
	if err := syncTree(l.path); err != nil {
		return err
	}
	if err := moveLayer(l.file(stepUpper), l.file(part)); err != nil {
		return err
	}
	return l.putStamp(part, stamp{Of: key, Made: b.Now()})
}

// moveLayer makes a layer of what was an upper one, in another directory: as long as any program sees the overlay
// of the first, which it may have inherited with all mounts of its time, the kernel refuses to use that one again.
func moveLayer(upper, layer string) error {
	var st unix.Stat_t
	if err := unix.Stat(upper, &st); err != nil {
		return &os.PathError{Op: "stat", Path: upper, Err: err}
	}
	if err := mount.MakeLike(upper, layer); err != nil {
		return err
	}
	names, err := os.ReadDir(upper)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := os.Rename(filepath.Join(upper, n.Name()), filepath.Join(layer, n.Name())); err != nil {
			return err
		}
	}
	return errors.Join(unix.UtimesNanoAt(unix.AT_FDCWD, layer, []unix.Timespec{st.Mtim, st.Mtim}, 0), os.Remove(upper))
}

// joinLayers puts all layers together to the tree, and takes out what commands left in it. What is there of an
// interrupted build is taken again, since the raw image is of that.
func (b *installer) joinLayers(of string) error {
	_, there := b.work.stamped(changesPart, of)
	if !there {
		if err := b.work.drop(changesPart); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	upper := b.work.file(changesPart)
	if err := b.overlay(upper); err != nil || there {
		return err
	}
	if len(b.layers.upper) > 0 { // the base is tidy
		if err := errors.Join(tidy(b.root), settleChanged(b.root, upper, aptPlace, begin)); err != nil {
			return err
		}
	}
	return b.work.putStamp(changesPart, stamp{Of: of, Made: b.Now()})
}

// overlay mounts the layers at the tree's root. What is written goes to upper; more lie right above the base.
func (b *installer) overlay(upper string, more ...string) error {
	if err := b.work.drop("overlay"); err != nil {
		return err
	}
	b.root = b.work.file("root")
	lower := slices.Concat([]string{b.layers.file(baseTree)}, more, b.layers.upper)
	slices.Reverse(lower)
	return b.above.Overlays(lower, upper, b.work.file("overlay"), b.root)
}

// canLayer tells whether the work directory can be the upper layer of an overlay: a container's own file system cannot.
func (b *installer) canLayer() error {
	var try mount.Stack
	probe := b.work.file("probe")
	if err := os.MkdirAll(filepath.Join(probe, "lower"), 0o755); err != nil {
		return err
	}
	err := try.Overlays(
		[]string{filepath.Join(probe, "lower")},
		filepath.Join(probe, "upper"),
		filepath.Join(probe, "work"),
		filepath.Join(probe, "at"),
	)
	return errors.Join(err, try.Close(), removeTree(probe))
}

// leastUsed removes directories of layers, those that were used least lately first, until there are no more than a
// few. One that a build uses stays.
func leastUsed(parent string, most int) error {
	all, err := filepath.Glob(filepath.Join(parent, layerPrefix+"*"))
	if err != nil {
		return err
	}
	used := func(dir string) time.Time {
		info, err := os.Stat(filepath.Join(dir, baseTree+".stamp"))
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(all, func(a, b string) int { return used(b).Compare(used(a)) })
	for _, dir := range all[min(most, len(all)):] {
		if w, ok := idleWork(dir); ok {
			err = errors.Join(err, w.remove())
			w.close()
		}
	}
	return err
}
