package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

const maxMethods = 4 // of an interface; an embedded interface counts as one

// larger are the interfaces that may have more methods: path and type, with the reason.
var larger = map[string]string{
	"internal/build/source/image.go depot":  "storage: registry, layout directory or archive",
	"internal/cache/readthrough.go Backend": "storage: the cache that blocks come from and go to",
	"internal/fleet/table.go slot":          "engine: a setting of any type, in the one table",
	"internal/ship/place.go Place":          "storage: where versions are copied from and to",
	"internal/store/disk.go Disk":           "storage: the file system below a store",
	"internal/store/remote.go Remote":       "storage: a bucket",
	"internal/testkit/root.go T":            "the part of testing.T that helpers need",
	"internal/testkit/visit.go TB":          "the part of testing.TB that helpers need",
}

// A consumer declares the interface of what it needs, so it is small. A large one asks for all that its provider has.
func TestInterfacesAreSmall(t *testing.T) {
	used := map[string]bool{}
	for _, s := range program(sources(t)) {
		for name, n := range largeInterfaces(s.file) {
			key := s.path + " " + name
			used[key] = true
			if larger[key] == "" {
				t.Errorf("%s has %d methods, at most %d are allowed: split it by purpose", key, n, maxMethods)
			}
		}
	}
	for key := range larger {
		if !used[key] {
			t.Errorf("%s is excepted but not too large any more", key)
		}
	}
}

// largeInterfaces returns the interfaces that have too many methods, by name, with their number.
func largeInterfaces(file *ast.File) map[string]int {
	found := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > maxMethods {
			found[spec.Name.Name] = i.Methods.NumFields()
		}
		return true
	})
	return found
}

func TestLargeInterfacesAreFound(t *testing.T) {
	text := "package x\n" +
		"type A interface{ B; C; a(); b(); c() }\n" +
		"type B interface{ a(); b(); c(); d() }\n" +
		"type C interface{}"
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := largeInterfaces(f); len(found) != 1 || found["A"] != 5 {
		t.Errorf("found %v, want A with 5", found)
	}
}
