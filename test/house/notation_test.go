package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMessagesAreNotInGoNotation: no message contains a slice, map or struct, which fmt and slog would print as [a b],
// map[a:b] and {1 2}.
func TestMessagesAreNotInGoNotation(t *testing.T) {
	t.Parallel()
	fset, exported := token.NewFileSet(), exportData(t)
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exported[path])
	})
	byDir := map[string][]source{}
	for _, s := range program(sources(t)) {
		if !strings.HasPrefix(s.dir, "internal/lab") && !strings.HasPrefix(s.dir, "internal/bench") &&
			!strings.HasPrefix(s.dir, "internal/testkit") && !strings.HasPrefix(s.dir, "cmd/pando-lab") {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	seen := 0
	for dir, files := range byDir {
		var parsed []*ast.File
		for _, s := range files {
			f, err := parser.ParseFile(fset, filepath.Join("../..", s.path), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		check := types.Config{Importer: imports}
		if _, err := check.Check("pando/"+dir, fset, parsed, info); err != nil {
			t.Fatal(err)
		}
		for _, f := range parsed {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				args := messageArgs(info, call)
				seen += len(args)
				for _, a := range args {
					if what := goNotation(info.Types[a].Type); what != "" {
						t.Errorf("%s: %s is written in Go's notation: join it", fset.Position(a.Pos()), what)
					}
				}
				return true
			})
		}
	}
	if seen < 1000 {
		t.Errorf("only %d arguments of messages were seen", seen)
	}
}

// exportData returns the file with the compiled declarations of each package.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./cmd/pando",
		"./cmd/pando-init")
	cmd.Dir = "../.."
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, problem.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[path] = file
		}
	}
	return files
}

// messageArgs returns the arguments of a call that become text: those of a format for verbs that print any value, or
// the values of a log line.
func messageArgs(info *types.Info, call *ast.CallExpr) (args []ast.Expr) {
	sig, ok := info.Types[call.Fun].Type.(*types.Signature)
	if !ok || !sig.Variadic() || call.Ellipsis.IsValid() {
		return nil
	}
	last := sig.Params().Len() - 1
	if of, ok := sig.Params().At(last).Type().(*types.Slice); !ok || !types.IsInterface(of.Elem()) || last == 0 {
		return nil
	}
	rest := call.Args[last:]
	format := info.Types[call.Args[last-1]].Value
	if format == nil || format.Kind() != constant.String {
		return nil
	}
	if strings.Contains(types.ExprString(call.Fun), "og.") || !strings.Contains(constant.StringVal(format), "%") {
		return rest
	}
	verbs := verbsOf(constant.StringVal(format))
	for i, a := range rest {
		if i < len(verbs) && strings.ContainsRune("vsq", verbs[i]) {
			args = append(args, a)
		}
	}
	return args
}

// verbsOf returns the verbs of a format, one for each argument.
func verbsOf(format string) (verbs []rune) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			if format[i] == '*' {
				verbs = append(verbs, '*')
			}
		}
		if i < len(format) && format[i] != '%' {
			verbs = append(verbs, rune(format[i]))
		}
	}
	return verbs
}

// goNotation describes a type whose values fmt prints in Go's notation, "" for other types.
func goNotation(t types.Type) string {
	for _, method := range []string{"Error", "String", "LogValue", "Format"} {
		if m, _, _ := types.LookupFieldOrMethod(t, true, nil, method); m != nil {
			return ""
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if b, ok := u.Elem().Underlying().(*types.Basic); ok && b.Kind() == types.Byte {
			return ""
		}
		return fmt.Sprintf("a list (%s)", t)
	case *types.Array, *types.Map, *types.Struct, *types.Pointer:
		return fmt.Sprintf("a value of %s", t)
	}
	return ""
}
