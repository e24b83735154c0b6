package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// globals are package variables that may change, as "directory.name", with the reason.
var globals = map[string]string{
	"internal/testkit.netCount":               "names of network namespaces are unique in a process of tests",
	"internal/node/writelayer.errNoWriteDisk": "an error with a hint",
}

// State belongs to a value that some code has created. A package variable may only be a kind of constant: an error, a
// regular expression, a table, an embedded file, or a value that is computed once.
func TestNoGlobalsThatChange(t *testing.T) {
	used := map[string]bool{}
	packages := map[string][]source{}
	for _, s := range program(sources(t)) {
		if strings.HasPrefix(s.dir, "internal/") || strings.HasPrefix(s.dir, "cmd/") {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	for dir, files := range packages {
		vars := map[string]string{}
		for _, s := range files {
			for name, why := range changeable(s.file, locked(files)) {
				vars[name] = why
			}
		}
		for _, s := range files {
			for name := range changed(s.file, vars) {
				vars[name] = "is changed by a function"
			}
		}
		for name, why := range vars {
			key := dir + "." + name
			used[key] = used[key] || why != ""
			if why != "" && globals[key] == "" {
				t.Errorf("%s %s", key, why)
			}
		}
	}
	for key := range globals {
		if !used[key] {
			t.Errorf("%s is excepted but does not change", key)
		}
	}
}

// changeable returns a file's package variables, each with the reason why its type makes it state, or "".
func changeable(file *ast.File, locks map[string]bool) map[string]string {
	vars := map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				var value ast.Expr
				if i < len(v.Values) {
					value = v.Values[i]
				}
				if name.Name != "_" {
					vars[name.Name] = stateful(v.Type, value, locks)
				}
			}
		}
	}
	return vars
}

// stateful returns why a variable of this type, or with this initial value, can change, "" if it cannot.
func stateful(typ, value ast.Expr, locks map[string]bool) string {
	if c, ok := value.(*ast.CallExpr); ok {
		if name, ok := c.Fun.(*ast.Ident); ok && (name.Name == "make" || name.Name == "new") {
			return "is made empty, to be filled"
		}
	}
	if u, ok := value.(*ast.UnaryExpr); ok && u.Op == token.AND {
		return "is a pointer"
	}
	if _, ok := typ.(*ast.StarExpr); ok {
		return "is a pointer"
	}
	for _, e := range []ast.Expr{typ, value} {
		if e != nil && holdsLock(e, locks) {
			return "has a lock, an atomic or a channel"
		}
	}
	return ""
}

// locked returns the types of a package that contain a lock.
func locked(files []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if d, ok := n.(*ast.TypeSpec); ok && holdsLock(d.Type, nil) {
				names[d.Name.Name] = true
			}
			return true
		})
	}
	return names
}

// holdsLock looks for channels and types of sync/atomic and sync (except OnceValue, which computes a constant).
func holdsLock(e ast.Expr, locks map[string]bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.FuncType:
			return false
		case *ast.Ident:
			found = found || locks[n.Name]
		case *ast.ChanType:
			found = true
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok {
				once := strings.HasPrefix(n.Sel.Name, "OnceValue")
				found = found || pkg.Name == "atomic" || pkg.Name == "sync" && !once || pkg.Name == "semaphore"
			}
		}
		return true
	})
	return found
}

// changed returns the variables that a function assigns to, increments, deletes from, or takes the address of. A name
// that the function declares itself is another variable.
func changed(file *ast.File, vars map[string]string) map[string]bool {
	found := map[string]bool{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		own := declared(f)
		add := func(e ast.Expr) {
			if name := base(e); name != "" && !own[name] {
				if _, ok := vars[name]; ok {
					found[name] = true
				}
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						add(e)
					}
				}
			case *ast.IncDecStmt:
				add(n.X)
			case *ast.UnaryExpr:
				if _, literal := n.X.(*ast.CompositeLit); n.Op == token.AND && !literal {
					add(n.X)
				}
			case *ast.CallExpr:
				name, ok := n.Fun.(*ast.Ident)
				if ok && (name.Name == "delete" || name.Name == "clear" || name.Name == "copy") && len(n.Args) > 0 {
					add(n.Args[0])
				}
			}
			return true
		})
	}
	return found
}

// base returns the variable that an expression is a part of.
func base(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}

// declared returns all names that a function declares: receiver, parameters, results and variables.
func declared(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		}
		return true
	})
	return names
}
