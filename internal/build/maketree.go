package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/build/source"
	"pando/internal/image"
)

// Source is where a tree comes from when it is neither installed nor there. Package source has the ways.
type Source interface {
	// Key names the source, whatever it has today, as a part of a file's name: builds with the same key take turns,
	// and go on with what an interrupted one of them left.
	Key() string

	// State says what the source has now: the digest of an image, the size and time of a file. A whole tree that an
	// interrupted build left is used again while the state is the same; "" means that nothing says so.
	State(ctx context.Context) (string, error)

	// Fill puts the tree into a place. progress is called from one goroutine at a time. After an error the same call
	// continues, or starts again.
	Fill(ctx context.Context, p source.Place, progress func(source.Progress)) (source.Made, error)
}

// ways counts how many ways to get a tree are given.
func (o Options) ways() int {
	n := 0
	for _, given := range []bool{o.Recipe != nil, o.FromDir != "", o.Source != nil} {
		if given {
			n++
		}
	}
	return n
}

// treeMaxAge is how old a tree may be that an interrupted build left. After that the archive has newer
// packages, and whoever builds wants them.
const treeMaxAge = 24 * time.Hour

// sourceKeep is the part of the work directory that a source has to itself until the tree is whole.
const sourceKeep = "source"

// makeTree is the step that installs the recipe's packages, has the source fill a directory, or takes the directory
// as it is.
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
		err := b.maker.canLayer()
		if err == nil && !b.atOnce {
			err = b.maker.makeLayers(ctx)
			b.root, b.kernel = b.maker.root, b.maker.kernel
			return err
		}
		if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			b.Progress(Progress{Step: StepTree, Note: "everything is installed anew: no layers here (" + why + ")"})
		}
	}
	b.root = b.work.file("tree")
	of, err := b.treeOf(ctx)
	if err != nil {
		return err
	}
	if s, ok := b.work.stamped("tree", of); ok && !b.FreshTree && b.Now().Sub(s.Made) < treeMaxAge {
		b.Progress(Progress{Step: StepTree, Note: "continuing with the tree made at " + s.Made.Format(time.DateTime)})
		b.origin, b.kernel = s.Origin, s.Kernel
		return nil
	}
	if err := b.work.drop("tree"); err != nil {
		return err
	}
	if b.Source != nil {
		err = b.fill(ctx)
	} else {
		err = b.maker.install(ctx, b.Recipe, b.root, "")
		b.kernel = b.maker.kernel
	}
	if err != nil {
		return err
	}
	if err := syncTree(b.root); err != nil { // the stamp is durable by itself; what it vouches for must be before
		return fmt.Errorf("write tree: %w", err)
	}
	if err := b.work.putStamp("tree", stamp{Of: of, Made: b.Now(), Origin: b.origin, Kernel: b.kernel}); err != nil {
		return err
	}
	return removeTree(b.work.file(sourceKeep))
}

// newMaker makes what makes the tree of the recipe.
func (b *builder) newMaker(ctx context.Context) error {
	key, err := b.KernelFrom.key(ctx)
	if err != nil {
		return err
	}
	b.maker = &installer{
		Recipe: b.Recipe, Parent: b.Work, Log: b.Log, Progress: b.at(StepTree), Now: b.Now, MaxAge: treeMaxAge, Fresh: b.FreshTree, Revision: Revision,
		KernelKey: key, work: b.work,
	}
	if b.KernelFrom != nil {
		b.maker.GiveKernel = func(ctx context.Context, tree string) (string, error) {
			err := b.giveKernel(ctx, tree)
			return b.kernel, err
		}
	}
	return nil
}

// treeOf names what the tree is made of.
func (b *builder) treeOf(ctx context.Context) (string, error) {
	kernel, err := b.KernelFrom.key(ctx)
	if err != nil {
		return "", err
	}
	if b.Recipe != nil {
		return b.Recipe.key() + kernel, nil
	}
	state, err := b.Source.State(ctx)
	return b.Source.Key() + " " + state + kernel, err
}

// fill has the source make the tree.
func (b *builder) fill(ctx context.Context) error {
	p := source.Place{Root: b.work.file("tree.new"), Keep: b.work.file(sourceKeep)}
	for _, dir := range []string{p.Root, p.Keep} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	made, err := b.Source.Fill(ctx, p, func(s source.Progress) {
		step := Progress{Step: StepTree, Done: s.Done, Total: s.Total, Note: s.Note}
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
	if abs == "/" {
		return errors.New("directory /: it changes while it is read; build from a copy")
	}
	b.root = abs
	return nil
}

// changeBase is the step of a recipe that begins with an image version: in a copy of it packages are added, files
// are put in place and commands run, in the order of a recipe that begins with nothing. An interrupted one begins
// again.
func (b *builder) changeBase(ctx context.Context) (err error) {
	version, err := b.Recipe.baseVersion()
	if err != nil {
		return err
	}
	for _, part := range []string{changedPart, "overlay", "tmp"} {
		if err := b.work.drop(part); err != nil {
			return err
		}
	}
	begin := time.Now().Truncate(time.Second)
	if b.base, err = openBase(ctx, b.work, b.Store, version, b.at(StepTree)); err != nil {
		return err
	}
	if got := b.base.manifest.Architecture; got != b.Recipe.Architecture {
		return fmt.Errorf("from: %s is for %s, the recipe for %s", b.Recipe.Base, got, b.Recipe.Architecture)
	}
	b.root, b.Parent = b.base.root, version
	b.maker.root = b.root
	if err := b.maker.apply(ctx); err != nil {
		return fullDisk(err, b.work.path)
	}
	if err := b.base.clean(b.at(StepTree)); err != nil {
		return err
	}
	return settleChanged(b.root, b.base.upper, aptPlace, begin)
}

// closeBase takes the mounts away that the tree is made of.
func (b *builder) closeBase() error {
	var err error
	if b.maker != nil {
		err = b.maker.close()
	}
	if b.base != nil {
		err = errors.Join(err, b.base.close())
	}
	return err
}
