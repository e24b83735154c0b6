package house

import (
	"go/ast"
	"strings"
	"testing"
)

// Lengths beyond which a file or a function has more than one thing to say.
const (
	maxFile     = 500
	maxFunction = 80
)

// longer are the exceptions: "path" or "path:function" with the reason.
var longer = map[string]string{}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	used := map[string]bool{}
	check := func(key string, have, most int) {
		if have <= most {
			return
		}
		used[key] = true
		if longer[key] == "" {
			t.Errorf("%s has %d lines, at most %d are allowed", key, have, most)
		}
	}
	for _, s := range sources(t) {
		check(s.path, s.fset.File(s.file.Pos()).LineCount(), maxFile)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				check(s.path+":"+f.Name.Name, s.lines(f), maxFunction)
			}
		}
	}
	for key := range longer {
		if !used[key] {
			t.Errorf("%s is excepted but not too long any more", key)
		}
	}
}

// Two levels are enough to find anything.
func TestPackagesAreNotNested(t *testing.T) {
	for _, s := range sources(t) {
		if strings.Count(s.dir, "/") > 1 {
			t.Errorf("%s: packages stand two levels deep, internal/x or cmd/x", s.path)
		}
	}
}
