package storm

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// givenFlags are the names of those that were given, and not left at what they are by themselves.
func givenFlags(f *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	return given
}

// version returns the image's newest version. It is built if there is none, and refused if it is known to be made
// of something else than what this run is to be of: its figures would stand below a command that does not give
// them. A digest is a version of the store.
func (s *Storm) version(ctx context.Context) (fleet.Digest, error) {
	if d, err := fleet.ParseDigest(s.image); err == nil {
		return d, nil
	}
	if i, err := s.site.API.Image(ctx, s.image); err == nil {
		if d, ok := i.Tags[fleet.LatestTag]; ok {
			return d, s.checkSource(d)
		}
	}
	from := []string{"--recipe", s.recipe}
	if s.tree != "" {
		from = []string{"--from-dir", s.tree}
	}
	c := s.Pando(ctx, append([]string{"image", "build", s.image}, from...)...)
	c.Stdout, c.Stderr = s.Out, s.Err
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build the image: %w", err)
	}
	i, err := s.site.API.Image(ctx, s.image)
	return i.Tags[fleet.LatestTag], err
}

// checkSource says when a version was made of something else. One whose provenance cannot be read is taken as it is.
func (s *Storm) checkSource(version fleet.Digest) error {
	dir, err := store.OpenDir(filepath.Join(s.DataDir(), "store"))
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
	if made, wanted := s.otherSource(p); made != "" {
		return fmt.Errorf(
			"the image %s in %s was made by %s, and not by %s: name that, or another --image or --dir",
			s.image,
			s.DataDir(),
			made,
			wanted,
		)
	}
	return nil
}

// otherSource is what an image was made by, and what it should have been made by; "": it was, or that is not known,
// or nobody asked. An image that is named stands for itself, unless a recipe or a tree is named too.
func (s *Storm) otherSource(p image.Provenance) (made, wanted string) {
	asked := s.given["recipe"] || s.given["tree"]
	switch {
	case p.Origin != nil || p.Parent != "" || !asked && s.given["image"]:
		return "", ""
	case s.tree != "":
		if p.Recipe == "" {
			return "", ""
		}
		return "the recipe " + p.Recipe, "the tree " + s.tree
	case p.Recipe == "" && (p.FromDir == "" || !asked), p.Recipe == s.recipe:
		return "", ""
	case p.Recipe == "":
		return "the tree " + p.FromDir, "the recipe " + s.recipe
	}
	if r, err := recipe.Load(s.recipe); err == nil && r.Text == p.RecipeText {
		return "", "" // another name of the same file
	}
	return "the recipe " + p.Recipe, "the recipe " + s.recipe
}

// commandLine is a command as it can be given again.
func commandLine(name string, args []string) string {
	return strings.Join(append([]string{"pando-lab", name}, args...), " ")
}
