package testbed

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/bench"
	"pando/internal/build/recipe"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/testkit"
)

// An image made by another recipe is refused, if the recipe is known and the image was not requested by name.
func TestOtherSource(t *testing.T) {
	recipe, err := recipe.Load("debian:bookworm")
	if err != nil {
		t.Fatal(err)
	}
	desktop := image.Provenance{Recipe: "debian-desktop", RecipeText: "from: debian:bookworm\n"}
	tree := image.Provenance{FromDir: "/srv/tree"}
	for _, x := range []struct {
		name  string
		args  []string
		of    image.Provenance
		other string
	}{
		{"the lab's own image", nil, desktop, "the recipe debian-desktop"},
		{"by the recipe", nil, image.Provenance{Recipe: "debian:bookworm"}, ""},
		{"by a copy of it", nil, image.Provenance{Recipe: "copy.yaml", RecipeText: recipe.Text}, ""},
		{"an image that is named", []string{"--image", "mine"}, desktop, ""},
		{"with a recipe", []string{"--image", "mine", "--recipe", "debian:trixie"}, desktop, "the recipe " +
			"debian-desktop"},
		{"nothing is recorded", []string{"--recipe", "debian:trixie"}, image.Provenance{}, ""},
		{"of a tree", nil, tree, ""},
		{"of a tree, and a recipe is named", []string{"--recipe", "debian:trixie"}, tree, "the tree /srv/tree"},
		{"by a recipe, and a tree is named", []string{"--tree", "/srv/tree"}, desktop, "the recipe debian-desktop"},
		{"of a tree that is named", []string{"--tree", "/srv/tree"}, tree, ""},
		{"changed by hand", nil, image.Provenance{Parent: "sha256:1"}, ""},
	} {
		f := flag.NewFlagSet("", flag.ContinueOnError)
		s := &Testbed{}
		f.StringVar(&s.Image, "image", "storm", "")
		f.StringVar(&s.Recipe, "recipe", "debian:bookworm", "")
		f.StringVar(&s.Tree, "tree", "", "")
		if err := f.Parse(x.args); err != nil {
			t.Fatal(err)
		}
		s.Given = bench.GivenFlags(f)
		if got, wanted := s.otherSource(x.of); got != x.other || (got != "") != (wanted != "") {
			t.Errorf("%s: got %q instead of %q, want %q", x.name, got, wanted, x.other)
		}
	}
}

// The source of a version is read from its provenance in the store.
func TestCheckSource(t *testing.T) {
	s := &Testbed{Place: bench.Place{Dir: t.TempDir()}, Recipe: "debian:bookworm", Image: "storm"}
	keys, err := identity.Open(filepath.Join(s.DataDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := store.OpenDir(filepath.Join(s.DataDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := testkit.SmallVersion(t.Context(), dir, keys.Site, "kernel", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkSource(v); err != nil {
		t.Errorf("nothing is recorded: %v", err)
	}
	kept, err := dir.GetVersion(v)
	if err == nil {
		kept.Provenance, err = image.Provenance{Format: 1, Recipe: "debian-desktop"}.Encode()
	}
	if err == nil {
		_, err = dir.PutVersion(kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkSource(v); err == nil ||
		!strings.Contains(err.Error(), "was made by the recipe debian-desktop, and not by the recipe debian:bookworm") {
		t.Errorf("another recipe: %v", err)
	}
}
