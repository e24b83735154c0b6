package recipe

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
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// Bounds and names of layers. All layers of one base are in one directory beside the work directories of builds; a
// build locks it. `pando store gc` removes it after a day without use.
const (
	MaxLayers = 4  // directories of layers that are kept
	maxSteps  = 24 // layers above a base; mount(2) takes names of 4 KB

	baseTree  = "tree"
	stepPart  = "step-"
	stepUpper = "step.new"

	changesPart = "upper" // of a build: the changes above all layers
)

// layers are the layers above one base, in a directory.
type layers struct {
	*workdir.Dir
	made  workdir.Stamp // stamp of the base
	lists string        // digest of the archive's lists
	upper []string      // directories of the steps so far, lowest first
}

// installed returns the part of a recipe that the lowest layer consists of.
func (r *Recipe) installed() *Recipe {
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

// Maker makes the tree of a recipe. It installs Debian packages with mmdebstrap, or takes an existing tree, and then
// carries out the recipe's files, settings and commands in it.
type Maker struct {
	Recipe   *Recipe
	Parent   string // directory with the work directories of all builds and with the layers
	Log      *slog.Logger
	Progress func(steps.Progress)
	Now      func() time.Time
	MaxAge   time.Duration // maximum age of layers above the base, and of a base whose archive cannot be reached
	Fresh    bool          // install again, even if the base is as new as the archive
	Revision int           // revision of the build package; layers of another revision are not used

	// GiveKernel copies a kernel into the tree, and returns its release and its name. nil: the recipe installs a
	// kernel.
	GiveKernel func(ctx context.Context, tree string) (release string, err error)
	KernelKey  string

	Work   *workdir.Dir // work directory of this build
	Root   string       // the tree
	Kernel string       // release of the kernel that GiveKernel copied; "": the tree has its own
	layers *layers      // layers of the tree; nil: it has none
	above  mount.Stack  // mounts of the layers
}

// Close unmounts the layers of the tree.
func (b *Maker) Close() error {
	err := b.above.Close()
	if b.layers != nil {
		b.layers.Close()
	}
	return err
}

// MakeLayers makes the tree of a recipe without a base image. It reuses existing layers and makes the others.
func (b *Maker) MakeLayers(ctx context.Context) (err error) {
	of := b.Recipe.installed().Key()
	w, err := workdir.Open(ctx, b.Parent, workdir.LayerPrefix+of, b.Revision, b.Progress)
	if err != nil {
		return err
	}
	b.layers = &layers{Dir: w}
	if err := b.makeBase(ctx, of+b.KernelKey); err != nil {
		return err
	}
	b.Kernel = b.layers.made.Kernel
	top, err := b.makeSteps(ctx)
	if err != nil {
		return workdir.FullDisk(err, b.Work.Path)
	}
	if err := b.joinLayers(top); err != nil {
		return err
	}
	return leastUsed(b.Parent, MaxLayers)
}

// makeBase uses the existing base, or installs it.
func (b *Maker) makeBase(ctx context.Context, of string) error {
	l := b.layers
	made, whole := l.Stamped(baseTree, of)
	if whole && !b.Fresh && b.current(ctx, made) {
		b.Progress(steps.Progress{Note: "packages as installed at " + made.Made.Format(time.DateTime)})
	} else {
		if err := l.clear(); err != nil {
			return err
		}
		if err := b.Install(ctx, b.Recipe.installed(), l.File(baseTree), l.File(aptLists)); err != nil {
			return err
		}
		// The stamp is durable by itself; the tree that it describes must be durable before.
		if err := workdir.SyncTree(l.Path); err != nil {
			return fmt.Errorf("write tree: %w", err)
		}
		made = workdir.Stamp{Of: of, Made: b.Now(), Kernel: b.Kernel}
	}
	l.made = made
	err := l.makeAptLayer() // each time, because apt may have fetched lists
	if err != nil {
		return err
	}
	if l.lists, err = listsDigest(l.File(aptLists)); err != nil {
		return err
	}
	return l.PutStamp(baseTree, made) // again: the time of the stamp is the time of the last use
}

// clear removes all layers.
func (l *layers) clear() error {
	parts, err := filepath.Glob(l.File("*"))
	if err != nil {
		return err
	}
	slices.Reverse(parts) // "tree.stamp" must go before "tree"
	for _, p := range parts {
		if filepath.Base(p) == "lock" {
			continue
		}
		if err := workdir.RemoveTree(p); err != nil {
			return err
		}
	}
	return nil
}

// makeSteps reuses layers up to the first that does not exist, and makes the rest. It returns the key of the last
// one.
func (b *Maker) makeSteps(ctx context.Context) (key string, err error) {
	l := b.layers
	if err := l.dropOld(b.Now().Add(-b.MaxAge)); err != nil {
		return "", err
	}
	key, known := layerKey(strconv.FormatInt(l.made.Made.UnixNano(), 36), l.lists), true
	for _, s := range b.Recipe.steps() {
		key = layerKey(key, s.key)
		part := stepPart + key
		if known {
			_, known = l.Stamped(part, key)
		}
		if known {
			b.Progress(steps.Progress{Note: "unchanged: " + s.name})
		} else if err := b.makeStep(ctx, s, part, key); err != nil {
			return "", err
		}
		l.upper = append(l.upper, l.File(part))
	}
	return key, nil
}

// dropOld removes the layers of steps that were made before a time, and what an interrupted step left.
func (l *layers) dropOld(before time.Time) error {
	parts, err := filepath.Glob(l.File(stepPart + "*.stamp"))
	if err != nil {
		return err
	}
	for _, p := range parts {
		info, err := os.Stat(p)
		if err == nil && info.ModTime().Before(before) {
			err = l.Drop(strings.TrimSuffix(filepath.Base(p), ".stamp"))
		}
		if err != nil {
			return err
		}
	}
	return l.Drop(stepUpper)
}

// makeStep runs a step on top of the layers before it and makes a layer of its changes.
func (b *Maker) makeStep(ctx context.Context, s step, part, key string) (err error) {
	l := b.layers
	b.Progress(steps.Progress{Note: s.name})
	for _, dir := range []string{part, stepUpper} {
		if err := l.Drop(dir); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	if err := b.overlay(l.File(stepUpper), l.File(aptPart)); err != nil {
		return err
	}
	err = s.do(ctx, b)
	if err == nil {
		err = systree.SettleChanged(b.Root, l.File(stepUpper), ListsDir, begin)
	}
	if err = errors.Join(err, b.above.Close()); err != nil {
		return errors.Join(err, l.Drop(stepUpper))
	}
	if err := workdir.SyncTree(l.Path); err != nil {
		return err
	}
	if err := moveLayer(l.File(stepUpper), l.File(part)); err != nil {
		return err
	}
	return l.PutStamp(part, workdir.Stamp{Of: key, Made: b.Now()})
}

// moveLayer moves the content of an overlay's upper directory to a new directory, which becomes a layer. The kernel
// refuses to reuse the directory itself while any process sees the overlay, also through an inherited mount
// namespace.
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

// joinLayers mounts all layers as the tree and removes the leftovers of commands. It keeps the changes that an
// interrupted build made, because the raw image may already be made from them.
func (b *Maker) joinLayers(of string) error {
	_, there := b.Work.Stamped(changesPart, of)
	if !there {
		if err := b.Work.Drop(changesPart); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	upper := b.Work.File(changesPart)
	if err := b.overlay(upper); err != nil || there {
		return err
	}
	if len(b.layers.upper) > 0 { // the base is already tidy
		if err := errors.Join(tidy(b.Root), systree.SettleChanged(b.Root, upper, ListsDir, begin)); err != nil {
			return err
		}
	}
	return b.Work.PutStamp(changesPart, workdir.Stamp{Of: of, Made: b.Now()})
}

// overlay mounts the layers at the tree's root. Changes go to upper. The directories in more are stacked right above
// the base.
func (b *Maker) overlay(upper string, more ...string) error {
	if err := b.Work.Drop("overlay"); err != nil {
		return err
	}
	b.Root = b.Work.File("root")
	lower := slices.Concat([]string{b.layers.File(baseTree)}, more, b.layers.upper)
	slices.Reverse(lower)
	return b.above.Overlays(lower, upper, b.Work.File("overlay"), b.Root)
}

// CanLayer returns an error unless the work directory can hold the upper layer of an overlay. The file system of a
// container cannot.
func (b *Maker) CanLayer() error {
	var try mount.Stack
	probe := b.Work.File("probe")
	if err := os.MkdirAll(filepath.Join(probe, "lower"), 0o755); err != nil {
		return err
	}
	err := try.Overlays(
		[]string{filepath.Join(probe, "lower")},
		filepath.Join(probe, "upper"),
		filepath.Join(probe, "work"),
		filepath.Join(probe, "at"),
	)
	return errors.Join(err, try.Close(), workdir.RemoveTree(probe))
}

// leastUsed removes the directories of layers that were not used for the longest time, until only most are left. It
// keeps a directory that a build uses.
func leastUsed(parent string, most int) error {
	all, err := filepath.Glob(filepath.Join(parent, workdir.LayerPrefix+"*"))
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
		if w, ok := workdir.OpenIdle(dir); ok {
			err = errors.Join(err, w.Remove())
			w.Close()
		}
	}
	return err
}
