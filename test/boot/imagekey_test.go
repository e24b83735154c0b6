package boot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// otherInputs returns packages below internal that a build imports, but that do not influence an image whose recipe
// starts from scratch.
func otherInputs() []string {
	return []string{"api", "build/base", "build/extension", "build/packer", "build/source", "fleet",
		"image/bootpack", "steps", "trace"}
}

// imageKey returns a hash of everything that influences an image and its storage: the code of package build and its
// imports, and the built-in recipes, without comments and tests. internal is the directory of that name.
func imageKey(internal fs.FS) (string, error) {
	h := sha256.New()
	todo, seen := []string{"build"}, map[string]bool{}
	for len(todo) > 0 {
		slices.Sort(todo)
		dir := todo[0]
		todo = todo[1:]
		if seen[dir] || slices.Contains(otherInputs(), dir) {
			continue
		}
		seen[dir] = true
		imports, err := hashPackage(h, internal, dir)
		if err != nil {
			return "", err
		}
		todo = append(todo, imports...)
	}
	recipes, err := fs.Glob(internal, "build/recipe/recipes/*.yaml")
	if err != nil {
		return "", err
	}
	for _, name := range recipes {
		text, err := fs.ReadFile(internal, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// hashPackage adds a package's code without comments to a hash, and returns its imports below internal.
func hashPackage(h hash.Hash, internal fs.FS, dir string) (imports []string, err error) {
	files, err := fs.Glob(internal, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("package %s has no files", dir)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(internal, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return nil, err
			}
			if ours, ok := strings.CutPrefix(p, "pando/internal/"); ok {
				imports = append(imports, ours)
			}
		}
		var s scanner.Scanner
		s.Init(set.AddFile(name, -1, len(text)), text, nil, 0) // the scanner skips comments
		for {
			_, tok, literal := s.Scan()
			if tok == token.EOF {
				break
			}
			fmt.Fprintf(h, "%d %q\n", tok, literal)
		}
	}
	return imports, nil
}

// The shared images are built again after a change of code or recipes that influence them, and only then.
func TestImageKey(t *testing.T) {
	key := func(more ...string) string {
		t.Helper()
		files := fstest.MapFS{
			"build/build.go": {
				Data: []byte("package build\n\nimport (\n\t\"pando/internal/api\"\n\t\"pando/internal/chunk\"\n)\n"),
			},
			"build/recipe/recipes/a.yaml": {Data: []byte("suite: bookworm\n")},
			"chunk/chunk.go":              {Data: []byte("package chunk\n\nconst Size = 1 // bytes\n")},
			"api/api.go":                  {Data: []byte("package api\n")},
			"server/server.go":            {Data: []byte("package server\n")},
		}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = &fstest.MapFile{Data: []byte(more[i+1])}
		}
		k, err := imageKey(files)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if _, err := imageKey(os.DirFS("../../internal")); err != nil {
		t.Errorf("of this repository: %v", err)
	}
	was := key()
	for name, more := range map[string][]string{
		"a comment":            {"chunk/chunk.go", "package chunk\n\n// Size is in bytes.\nconst Size = 1\n"},
		"a test":               {"chunk/chunk_test.go", "package chunk\n\nconst Other = 1\n"},
		"another package":      {"server/server.go", "package server\n\nconst Port = 1\n"},
		"what decides nothing": {"api/api.go", "package api\n\nconst Path = 1\n"},
	} {
		if key(more...) != was {
			t.Errorf("%s has the images built again", name)
		}
	}
	for name, more := range map[string][]string{
		"code of an import": {"chunk/chunk.go", "package chunk\n\nconst Size = 2 // bytes\n"},
		"a recipe":          {"build/recipe/recipes/a.yaml", "suite: trixie\n"},
		"the pipeline":      {"build/more.go", "package build\n\nconst Revision = 4\n"},
	} {
		if key(more...) == was {
			t.Errorf("%s does not have the images built again", name)
		}
	}
}
