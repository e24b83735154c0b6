package testbed

import (
	"context"
	"fmt"
	"path/filepath"

	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// version returns the image's newest version, or builds one. It returns an error if that version is known to be made
// from another source than this run's, because the results would be wrong for this command line. A digest names a
// version of the store.
func (t *Testbed) version(ctx context.Context) (fleet.Digest, error) {
	if d, err := fleet.ParseDigest(t.Image); err == nil {
		return d, nil
	}
	if i, err := t.Site.API.Image(ctx, t.Image); err == nil {
		if d, ok := i.Tags[fleet.LatestTag]; ok {
			return d, t.checkSource(d)
		}
	}
	from := []string{"--recipe", t.Recipe}
	if t.Tree != "" {
		from = []string{"--from-dir", t.Tree}
	}
	c := t.Pando(ctx, append([]string{"image", "build", t.Image}, from...)...)
	c.Stdout, c.Stderr = t.Out, t.Err
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build the image: %w", err)
	}
	i, err := t.Site.API.Image(ctx, t.Image)
	return i.Tags[fleet.LatestTag], err
}

// checkSource returns an error if a version was made from another source. A version with unreadable provenance is
// accepted.
func (t *Testbed) checkSource(version fleet.Digest) error {
	dir, err := store.OpenDir(filepath.Join(t.DataDir(), "store"))
	if err != nil {
		return err
	}
	v, err := dir.GetVersion(version)
	if err != nil {
		return err
	}
	p, err := image.DecodeProvenance(v.Provenance)
	if err != nil {
		return nil
	}
	if made, wanted := t.otherSource(p); made != "" {
		return fmt.Errorf(
			"the image %s in %s was made by %s, and not by %s: name that, or another --image or --dir",
			t.Image,
			t.DataDir(),
			made,
			wanted,
		)
	}
	return nil
}

// otherSource returns what an image was made from, and what it should be made from; "" if both are equal, unknown, or
// not specified. A given image name alone accepts any source.
func (t *Testbed) otherSource(p image.Provenance) (made, wanted string) {
	asked := t.Given["recipe"] || t.Given["tree"]
	switch {
	case p.Origin != nil || p.Parent != "" || !asked && t.Given["image"]:
		return "", ""
	case t.Tree != "":
		if p.Recipe == "" {
			return "", ""
		}
		return "the recipe " + p.Recipe, "the tree " + t.Tree
	case p.Recipe == "" && (p.FromDir == "" || !asked), p.Recipe == t.Recipe:
		return "", ""
	case p.Recipe == "":
		return "the tree " + p.FromDir, "the recipe " + t.Recipe
	}
	if r, err := recipe.Load(t.Recipe); err == nil && r.Text == p.RecipeText {
		return "", "" // another name of the same file
	}
	return "the recipe " + p.Recipe, "the recipe " + t.Recipe
}
