package house

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// root is the top of the module, relative to this directory.
const root = "../.."

// source is one parsed Go file.
type source struct {
	path string // relative to the module's top: "internal/fleet/mac.go"
	dir  string // "internal/fleet"
	test bool
	file *ast.File
	fset *token.FileSet
}

func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// lineCount returns the number of lines of the file.
func (s source) lineCount() int { return s.fset.File(s.file.Pos()).LineCount() }

// lines returns the number of lines of the node.
func (s source) lines(n ast.Node) int { return s.line(n.End()) - s.line(n.Pos()) + 1 }

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if rel == "build" || rel == "tools" || d.Name() == "testdata" ||
				strings.HasPrefix(d.Name(), ".") && rel != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{rel, filepath.Dir(rel), strings.HasSuffix(rel, "_test.go"), f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// program returns the files that are not tests.
func program(all []source) []source {
	var out []source
	for _, s := range all {
		if !s.test {
			out = append(out, s)
		}
	}
	return out
}
