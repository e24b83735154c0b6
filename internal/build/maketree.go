package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/build/base"
	"pando/internal/build/recipe"
	"pando/internal/build/source"
	"pando/internal/image"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
)

// Source fills a directory with a tree that is neither installed nor given as a directory. Package source has the
// implementations.
type Source interface {
	// Key names the source, independent of its present content, as part of a file name. Builds with the same key wait
	// for each other, and continue after an interrupted one.
	Key() string

	// State identifies the source's content: the digest of an image, the size and time of a file. A complete tree of
	// an interrupted build is reused while the state is the same. "" means that the content is unknown.
	State(ctx context.Context) (string, error)

	// Fill puts the tree into a place. progress is called from one goroutine at a time. After an error the same call
	// continues, or starts again.
	Fill(ctx context.Context, p source.Place, progress func(source.Progress)) (source.Made, error)
}

// ways returns how many sources of a tree are given.
func (o Options) ways() int {
	n := 0
	for _, given := range []bool{o.Recipe != nil, o.FromDir != "", o.Source != nil} {
		if given {
			n++
		}
	}
	return n
}

// treeMaxAge is the maximum age of a tree that a build reuses after an interruption. The archive may have newer
// packages after that.
const treeMaxAge = 24 * time.Hour

// sourceKeep is the part of the work directory that only the source uses, until the tree is complete.
const sourceKeep = "source"

// makeTree is the step that makes the tree: it installs the recipe's packages, calls the source, or takes the
// directory as it is.
func (b *builder) makeTree(ctx context.Context) error {
	if b.FromDir != "" {
		return b.takeDirectory()
	}
	if b.Recipe != nil {
		if err := b.newMaker(ctx); err != nil {
			return err
		}
	}
	if b.Recipe != nil && b.Recipe.Base != "" {
		return b.changeBase(ctx)
	}
	if b.Recipe != nil {
		err := b.maker.CanLayer()
		if err == nil && !b.atOnce {
			err = b.maker.MakeLayers(ctx)
			b.root, b.kernel = b.maker.Root, b.maker.Kernel
			return err
		}
		if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			b.Progress(
				steps.Progress{Step: StepTree, Note: "everything is installed again: no layers here (" + why + ")"},
			)
		}
	}
	b.root = b.work.File("tree")
	of, err := b.treeOf(ctx)
	if err != nil {
		return err
	}
	if s, ok := b.work.Stamped("tree", of); ok && !b.FreshTree && b.Now().Sub(s.Made) < treeMaxAge {
		b.Progress(
			steps.Progress{Step: StepTree, Note: "continuing with the tree made at " + s.Made.Format(time.DateTime)},
		)
		b.origin, b.kernel = s.Origin, s.Kernel
		return nil
	}
	if err := b.work.Drop("tree"); err != nil {
		return err
	}
	if b.Source != nil {
		err = b.fill(ctx)
	} else {
		err = b.maker.Install(ctx, b.Recipe, b.root, "")
		b.kernel = b.maker.Kernel
	}
	if err != nil {
		return err
	}
	// The stamp is durable by itself; the tree that it describes must be durable before.
	if err := workdir.SyncTree(b.root); err != nil {
		return fmt.Errorf("write tree: %w", err)
	}
	if err := b.work.PutStamp("tree",
		workdir.Stamp{Of: of, Made: b.Now(), Origin: b.origin, Kernel: b.kernel}); err != nil {
		return err
	}
	return workdir.RemoveTree(b.work.File(sourceKeep))
}

// newMaker makes the Maker of the recipe's tree.
func (b *builder) newMaker(ctx context.Context) error {
	key, err := b.KernelFrom.key(ctx, b.Kernel)
	if err != nil {
		return err
	}
	b.maker = &recipe.Maker{
		Recipe: b.Recipe, Parent: b.Work, Log: b.Log, Progress: b.at(StepTree), Now: b.Now, MaxAge: treeMaxAge,
		Fresh: b.FreshTree, Revision: Revision,
		KernelKey: key, Work: b.work,
	}
	if b.KernelFrom != nil {
		b.maker.GiveKernel = func(ctx context.Context, tree string) (string, error) {
			err := b.giveKernel(ctx, tree)
			return b.kernel, err
		}
	}
	return nil
}

// treeOf returns a name for the inputs of the tree.
func (b *builder) treeOf(ctx context.Context) (string, error) {
	kernel, err := b.KernelFrom.key(ctx, b.Kernel)
	if err != nil {
		return "", err
	}
	if b.Recipe != nil {
		return b.Recipe.Key() + kernel, nil
	}
	state, err := b.Source.State(ctx)
	return b.Source.Key() + " " + state + kernel, err
}

// fill calls the source to make the tree.
func (b *builder) fill(ctx context.Context) error {
	p := source.Place{Root: b.work.File("tree.new"), Keep: b.work.File(sourceKeep)}
	for _, dir := range []string{p.Root, p.Keep} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	made, err := b.Source.Fill(ctx, p, func(s source.Progress) {
		step := steps.Progress{Step: StepTree, Done: s.Done, Total: s.Total, Note: s.Note}
		if s.Done > 0 || s.Total > 0 {
			step.Unit = "bytes"
		}
		b.Progress(step)
	})
	if err != nil {
		return err
	}
	b.origin = &image.Origin{Kind: made.Kind, Name: made.Name, Digest: made.Digest, Notes: made.Notes}
	if err := b.giveKernel(ctx, p.Root); err != nil {
		return err
	}
	return os.Rename(p.Root, b.root)
}

// takeDirectory takes a directory as the tree.
func (b *builder) takeDirectory() error {
	abs, err := filepath.EvalSymlinks(b.FromDir)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if abs, err = filepath.Abs(abs); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return fmt.Errorf(
			"%s is not a directory: --from-tar takes an archive, --from-disk a disk, --from-oci a container image",
			abs,
		)
	}
	if abs == "/" {
		return errors.New("directory /: it changes while it is read; build from a copy")
	}
	b.root = abs
	return nil
}

// changeBase is the step of a recipe that begins with an image version. It makes a copy of the version and adds
// packages, files and commands in the same order as for other recipes. After an interruption it begins again.
func (b *builder) changeBase(ctx context.Context) (err error) {
	version, err := b.Recipe.BaseVersion()
	if err != nil {
		return err
	}
	for _, part := range []string{workdir.ChangedPart, "overlay", "tmp"} {
		if err := b.work.Drop(part); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	if b.base, err = base.Open(ctx, b.work, b.Store, version, b.at(StepTree)); err != nil {
		return err
	}
	if got := b.base.Manifest.Architecture; got != b.Recipe.Architecture {
		return fmt.Errorf("from: %s is for %s, the recipe for %s", b.Recipe.Base, got, b.Recipe.Architecture)
	}
	b.root, b.Parent = b.base.Root, version
	b.maker.Root = b.root
	if err := b.maker.Apply(ctx); err != nil {
		return workdir.FullDisk(err, b.work.Path)
	}
	if err := b.base.Clean(b.at(StepTree)); err != nil {
		return err
	}
	b.kernel = keptKernel(b.base)
	return systree.SettleChanged(b.root, b.base.Upper, recipe.ListsDir, begin)
}

// closeBase unmounts the file systems that the tree consists of.
func (b *builder) closeBase() error {
	var err error
	if b.maker != nil {
		err = b.maker.Close()
	}
	if b.base != nil {
		err = errors.Join(err, b.base.Close())
	}
	return err
}
