package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLongBootsAreExpectedSkips: every test that only the full test runs is in test/skips.txt. A missing one would fail
// continuous integration after half an hour.
func TestLongBootsAreExpectedSkips(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", "test/skips.txt"))
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "pando/test/boot" {
			expected[f[1]] = true
		}
	}
	full := 0
	for _, s := range sources(t) {
		if s.dir != "test/boot" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "TestReal") &&
				callsAtOnce(f, "needFull") {
				full++
				if !expected[f.Name.Name] {
					t.Errorf("%s: %s is not in test/skips.txt", s.path, f.Name.Name)
				}
			}
		}
	}
	if full < 20 {
		t.Errorf("%d tests were found", full)
	}
}

// callsAtOnce reports whether a function's own statements call the function name.
func callsAtOnce(f *ast.FuncDecl, name string) bool {
	return slices.ContainsFunc(f.Body.List, func(s ast.Stmt) bool {
		x, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := x.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		return ok && id.Name == name
	})
}
