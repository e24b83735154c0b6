package house

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// commandLine lists the packages, besides those below cli, that declare or read flags.
var commandLine = []string{
	"cmdenv", "settingflags", "storeflags", "buildrun", "output", "hostcheck", "exitcode", "terminal", "listing",
}

// TestFlagsAreUsed: each flag of a command is read by code that the command can reach. A flag that is only declared
// would be ignored silently.
func TestFlagsAreUsed(t *testing.T) {
	t.Parallel()
	p := loadCommandLine(t)
	commands, flags := 0, 0
	for f := range p.bodies {
		if !p.isCommand(f) {
			continue
		}
		commands++
		reach := map[*types.Func]bool{}
		p.reachable(f, reach)
		declared, read := map[types.Object]token.Pos{}, map[types.Object]bool{}
		for g := range reach {
			p.flagsOf(g, declared, read)
		}
		flags += len(declared)
		for flag, at := range declared {
			if !read[flag] {
				t.Errorf("%s: %s takes a flag into %s, which nothing that it calls reads",
					p.fset.Position(at), f.FullName(), flag.Name())
			}
		}
	}
	if commands < 80 || flags < 300 {
		t.Errorf("only %d commands with %d flags were found", commands, flags)
	}
}

// commandCode is the code of the command line with its types.
type commandCode struct {
	fset     *token.FileSet
	info     *types.Info
	bodies   map[*types.Func]*ast.FuncDecl
	packages map[string]*types.Package
	files    map[string][]source
	compiled types.Importer
	t        *testing.T
}

func loadCommandLine(t *testing.T) *commandCode {
	t.Helper()
	p := &commandCode{fset: token.NewFileSet(), bodies: map[*types.Func]*ast.FuncDecl{}, t: t,
		packages: map[string]*types.Package{}, files: map[string][]source{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}}
	for _, s := range program(sources(t)) {
		name := strings.TrimPrefix(s.dir, "internal/")
		for _, of := range commandLine {
			if name == of || strings.HasPrefix(name, "cli/") {
				p.files["pando/"+s.dir] = append(p.files["pando/"+s.dir], s)
				break
			}
		}
	}
	exported := exportData(t)
	p.compiled = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exported[path])
	})
	for path := range p.files {
		if _, err := p.Import(path); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Import type-checks packages of the command line from source, and loads others from export data.
func (p *commandCode) Import(path string) (*types.Package, error) {
	files, own := p.files[path]
	if !own {
		return p.compiled.Import(path)
	}
	if done := p.packages[path]; done != nil {
		return done, nil
	}
	var parsed []*ast.File
	for _, s := range files {
		f, err := parser.ParseFile(p.fset, filepath.Join(root, s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: p}
	made, err := config.Check(path, p.fset, parsed, p.info)
	if err != nil {
		return nil, err
	}
	p.packages[path] = made
	for _, f := range parsed {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				p.bodies[p.info.Defs[fn.Name].(*types.Func)] = fn
			}
		}
	}
	return made, nil
}

// isCommand reports whether a function returns a command that runs something.
func (p *commandCode) isCommand(f *types.Func) (is bool) {
	ast.Inspect(p.bodies[f], func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			is = is || p.info.Types[lit].Type.String() == "github.com/spf13/cobra.Command"
		}
		return !is
	})
	return is
}

// reachable adds f and the functions that it names, except other commands.
func (p *commandCode) reachable(f *types.Func, seen map[*types.Func]bool) {
	if p.bodies[f] == nil || seen[f] || len(seen) > 0 && p.isCommand(f) {
		return
	}
	seen[f] = true
	ast.Inspect(p.bodies[f], func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if g, ok := p.info.Uses[id].(*types.Func); ok {
				p.reachable(g, seen)
			}
		}
		return true
	})
}

// flagsOf adds the variables that a function declares flags for, and those that it reads.
func (p *commandCode) flagsOf(f *types.Func, declared map[types.Object]token.Pos, read map[types.Object]bool) {
	written := map[*ast.Ident]bool{}
	ast.Inspect(p.bodies[f], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, into := range p.flagsInto(n) {
				written[into] = true
				if obj := p.info.Uses[into]; p.own(obj) && p.parameter(f, obj) < 0 {
					declared[obj] = into.Pos()
				}
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id := last(left); id != nil {
					written[id] = true
				}
			}
		case *ast.Ident:
			if obj, ok := p.info.Uses[n].(*types.Var); ok && !written[n] {
				read[obj] = true
			}
		}
		return true
	})
}

// flagsInto returns the variables and fields that a call declares flags for: the first argument of a method of FlagSet
// whose name contains Var, or the address that a helper gets for such a call.
func (p *commandCode) flagsInto(call *ast.CallExpr) (into []*ast.Ident) {
	name := last(call.Fun)
	if name == nil {
		return nil
	}
	f, ok := p.info.Uses[name].(*types.Func)
	if !ok {
		return nil
	}
	if strings.HasPrefix(f.FullName(), "(*github.com/spf13/pflag.FlagSet).") && strings.Contains(f.Name(), "Var") {
		return []*ast.Ident{last(call.Args[0])}
	}
	if p.bodies[f] == nil {
		return nil
	}
	ast.Inspect(p.bodies[f], func(n ast.Node) bool {
		if inner, ok := n.(*ast.CallExpr); ok && inner != call {
			for _, id := range p.flagsInto(inner) {
				if i := p.parameter(f, p.info.Uses[id]); i >= 0 && i < len(call.Args) && last(call.Args[i]) != nil {
					into = append(into, last(call.Args[i]))
				}
			}
		}
		return true
	})
	return into
}

// parameter returns the index of a variable among a function's parameters, -1 if it is none.
func (p *commandCode) parameter(f *types.Func, obj types.Object) int {
	params := f.Signature().Params()
	for i := range params.Len() {
		if params.At(i) == obj {
			return i
		}
	}
	return -1
}

// own reports whether a variable is local, or a field of a struct of the command line. Fields of other structs may be
// read elsewhere.
func (p *commandCode) own(obj types.Object) bool {
	v, ok := obj.(*types.Var)
	return ok && v.Pkg() != nil && p.packages[v.Pkg().Path()] != nil
}

// last returns the variable or field that an expression ends in: c of &a.b.c.
func last(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return last(e.X)
		}
	case *ast.SelectorExpr:
		return e.Sel
	case *ast.Ident:
		return e
	case *ast.StarExpr:
		return last(e.X)
	}
	return nil
}
