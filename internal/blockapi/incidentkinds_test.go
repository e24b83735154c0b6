package blockapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// Each constant of the type has a hint.
func TestEachKindHasAHint(t *testing.T) {
	var out []IncidentKind
	f, err := parser.ParseFile(token.NewFileSet(), "incidents.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); ok && of.Name == "IncidentKind" {
			for _, x := range v.Values {
				kind, err := strconv.Unquote(x.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, IncidentKind(kind))
			}
		}
		return true
	})
	slices.Sort(out)
	if len(out) == 0 || !slices.Equal(out, IncidentKinds()) {
		t.Errorf("there are incidents of kinds %v, and hints for %v", out, IncidentKinds())
	}
}
