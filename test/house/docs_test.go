package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// minPackageComment is the minimum number of lines of a package comment, which explains the package's terms.
const minPackageComment = 3

func TestEveryPackageTeachesItsWords(t *testing.T) {
	comment := map[string]string{}
	for _, s := range sources(t) {
		if _, ok := comment[s.dir]; !ok {
			comment[s.dir] = ""
		}
		if s.file.Doc != nil {
			comment[s.dir] = max(comment[s.dir], s.file.Doc.Text())
		}
	}
	for dir, text := range comment {
		switch lines := strings.Count(text, "\n"); {
		case lines == 0:
			t.Errorf("%s has no package comment", dir)
		case lines < minPackageComment:
			t.Errorf("%s: package comment of %d lines teaches nothing", dir, lines)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range program(sources(t)) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && receiverExported(d) && !obvious(d) {
					t.Errorf("%s:%d: %s has no comment", s.path, s.line(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				checkGroup(t, s, d)
			}
		}
	}
}

// receiverExported reports whether f is a function, or a method of an exported type.
func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// obvious reports whether f implements an interface that defines its meaning.
func obvious(f *ast.FuncDecl) bool {
	switch f.Name.Name {
	case "Error", "Unwrap", "Is", "As", "Len", "Less", "Swap", "Format":
		return f.Recv != nil
	}
	return false
}

// checkGroup expects a comment on a type, constant or variable, or on its group.
func checkGroup(t *testing.T, s source, d *ast.GenDecl) {
	if d.Tok == token.IMPORT {
		return
	}
	for _, spec := range d.Specs {
		var names []*ast.Ident
		documented := false
		switch x := spec.(type) {
		case *ast.TypeSpec:
			names, documented = []*ast.Ident{x.Name}, x.Doc != nil || d.Doc != nil && !d.Lparen.IsValid()
		case *ast.ValueSpec:
			names, documented = x.Names, x.Doc != nil || x.Comment != nil || d.Doc != nil
		}
		for _, n := range names {
			if n.IsExported() && !documented {
				t.Errorf("%s:%d: %s has no comment", s.path, s.line(n.Pos()), n.Name)
			}
		}
	}
}

// Words for unfinished work belong in the issue tracker.
func TestNoLeftovers(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"} {
				if strings.Contains(group.Text(), word) {
					t.Errorf("%s:%d: comment says %s", s.path, s.line(group.Pos()), word)
				}
			}
		}
	}
}
