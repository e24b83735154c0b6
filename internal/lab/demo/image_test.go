package demo

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// A changed recipe of the same name is a different recipe.
func TestChangedRecipeIsNoticed(t *testing.T) {
	data := t.TempDir()
	load := func(text string) *recipe.Recipe {
		t.Helper()
		file := filepath.Join(data, "lab.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := recipe.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const text = "from: debian:bookworm\npackages: [nano]\n"
	r := load(text)
	made := put(
		t,
		data,
		image.Provenance{Recipe: r.Name, RecipeText: text, Builder: "v1", Source: build.Options{Recipe: r}.Asked()},
	)
	if !madeOf(data, made, load("# a comment\n"+text)) {
		t.Error("an image of the same recipe is built again")
	}
	if madeOf(data, made, load(text+"command_line: [quiet]\n")) {
		t.Error("a changed file of the same name is not noticed")
	}
	another := *r
	another.Packages = another.Packages[1:] // as if the built-in recipe had one package less
	if madeOf(data, made, &another) {
		t.Error("a changed built-in recipe is not noticed")
	}
	flags := put(
		t,
		data,
		image.Provenance{Recipe: r.Name, Source: build.Options{Recipe: r, CommandLine: []string{"quiet"}}.Asked()},
	)
	if madeOf(data, flags, r) {
		t.Error("an image with a kernel argument by flag is taken for one without")
	}
	if old := put(t, data, image.Provenance{Recipe: r.Name, RecipeText: text}); madeOf(data, old, r) {
		t.Error("an image of a builder that said nothing is used again")
	}
	if madeOf(data, "sha256:00", r) {
		t.Error("a version that is not there is used again")
	}
}

// put stores a version that has only a provenance.
func put(t *testing.T, data string, p image.Provenance) fleet.Digest {
	t.Helper()
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		t.Fatal(err)
	}
	sidecar, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	v, err := dir.PutVersion(
		store.Version{Manifest: []byte(p.Source + p.Recipe), Signature: []byte("unread"), Provenance: sidecar},
	)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
