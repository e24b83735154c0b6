package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// fieldCase matches a package in backquotes, or a test's name, in the page of field cases.
var fieldCase = regexp.MustCompile("`([a-z0-9/]+)`|\\bTest[A-Za-z0-9]+")

// Every test that the page of field cases names exists in the package that the page names.
func TestFieldCasesHaveTheirTests(t *testing.T) {
	have := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				have[s.dir+" "+f.Name.Name] = true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/field-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir, tests := "", 0
	for _, found := range fieldCase.FindAllSubmatch(page, -1) {
		if dirName := string(found[1]); dirName != "" {
			dir = dirName
			continue
		}
		tests++
		if name := string(found[0]); !have[dir+" "+name] && !have["internal/"+dir+" "+name] {
			t.Errorf("docs/field-cases.md: %s has no %s", dir, name)
		}
	}
	if tests < 20 {
		t.Errorf("docs/field-cases.md names %d tests", tests)
	}
}
