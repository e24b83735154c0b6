package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWalkNamesTests: every test that docs/boot-walk.md names for a step exists.
func TestWalkNamesTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../..", "docs/boot-walk.md"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				have[f.Name.Name] = true
			}
		}
	}
	steps := 0
	for line := range strings.Lines(string(page)) {
		if !regexp.MustCompile(`^\| \d+ \|`).MatchString(line) {
			continue
		}
		steps++
		cells := strings.Split(line, "|")
		names := regexp.MustCompile(`Test[A-Z]\w*`).FindAllString(cells[len(cells)-2], -1)
		if len(names) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, n := range names {
			if !have[n] {
				t.Errorf("%s does not exist: %s", n, line)
			}
		}
	}
	if steps < 15 {
		t.Errorf("%d steps were found", steps)
	}
}
