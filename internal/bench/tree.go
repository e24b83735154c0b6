package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/identity"
	"pando/internal/steps"
	"pando/internal/store"
)

// Build builds a version by a recipe ("": none), with keys and a store below a directory and without a server.
func Build(ctx context.Context, work, name string, change func(*build.Options)) (build.Result, error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return build.Result{}, err
	}
	keys, err := identity.Open(filepath.Join(work, "keys"))
	if err != nil {
		return build.Result{}, err
	}
	dir, err := store.OpenDir(filepath.Join(work, "store"))
	if err != nil {
		return build.Result{}, err
	}
	o := build.Options{Store: dir, Keys: keys.Ring.Signers(), Work: filepath.Join(work, "work")}
	if name != "" {
		if o.Recipe, err = recipe.Load(name); err != nil {
			return build.Result{}, err
		}
	}
	change(&o)
	return build.Image(ctx, o)
}

// InstallTree makes a tree by the recipe. The build stops when the tree is complete, and the tree is copied before the
// build removes it.
func InstallTree(ctx context.Context, work, recipe string) (string, error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	tree := ""
	var copied error
	_, err := Build(ctx, work, recipe, func(o *build.Options) {
		o.Progress = func(p steps.Progress) {
			if p.Step == build.StepScan && ctx.Err() == nil {
				tree, copied = keepTree(ctx, work)
				enough()
			}
		}
	})
	if tree != "" && copied == nil {
		return tree, nil
	}
	return "", fmt.Errorf("install a tree: %w", cmp.Or(copied, err))
}

// keepTree copies the tree of the build that runs below a directory. The tree consists of mounted layers that the build
// unmounts at its end.
func keepTree(ctx context.Context, work string) (string, error) {
	found, err := filepath.Glob(filepath.Join(work, "work", "recipe-*", "root"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("there are %d trees below %s, want one: empty it", len(found), work)
	}
	tree := filepath.Join(work, "tree")
	if err := CopyTree(ctx, found[0], tree+".new"); err != nil {
		return "", err
	}
	return tree, os.Rename(tree+".new", tree)
}

// InstalledTree returns the tree below a work directory, "" if there is none.
func InstalledTree(work string) string {
	tree := filepath.Join(work, "tree")
	if _, err := os.Stat(tree); err != nil {
		return ""
	}
	return tree
}

// CopyTree copies a tree with owners and times.
func CopyTree(ctx context.Context, from, to string) error {
	return Run(ctx, "cp", "-a", "--reflink=auto", from, to)
}

// SizeOfTree adds up the sizes of a tree's files, and reads them into the page cache.
func SizeOfTree(tree string) (bytes, files int64, err error) {
	err = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		bytes += n
		return err
	})
	return bytes, files, err
}
