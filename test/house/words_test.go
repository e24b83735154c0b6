package house

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// oldWords are words of earlier names, each with the standard term that replaced it.
var oldWords = map[string]string{
	"leisure":   "throttle",
	"parcels":   "spool",
	"errand":    "command",
	"errands":   "commands",
	"nudge":     "wake",
	"nudger":    "waker",
	"strangers": "discovery",
	"strand":    "stalled",
	"stranded":  "stalled",
	"mend":      "fix",
	"mended":    "fixed",
	"mends":     "fixes",
	"feeder":    "fetcher",
	"gather":    "coalesce",
	"crowd":     "connection limit, nodes",
	"shelf":     "piece store",
	"heard":     "last seen",
	"turn":      "admission",
	"turns":     "admissions",
	"said":      "report, output",
	"elsewhere": "oidc, other",
	"sight":     "filter",
	"band":      "priority",
	"keeper":    "monitor, backend",
	"near":      "local, same subnet",
	"holds":     "roots",
	"strange":   "unknown",
	"stranger":  "unknown",
	"loose":     "demand",
	"giver":     "sender, recent peer",
	"shunned":   "unreliable",
	"accuse":    "report",
	"hello":     "registration",
}

// Names use terms that an engineer of the field would search for. The test checks declared names and file names;
// strings, such as names on the wire, may differ.
func TestWords(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "test/house" {
			continue
		}
		for _, w := range nameWords(strings.TrimSuffix(path.Base(s.path), ".go")) {
			if instead := oldWords[w]; instead != "" {
				t.Errorf("%s: a file's name says %s, the term is %s", s.path, w, instead)
			}
		}
		for _, id := range declarations(s.file) {
			for _, w := range nameWords(id.Name) {
				if instead := oldWords[w]; instead != "" {
					t.Errorf("%s:%d: %s says %s, the term is %s", s.path, s.line(id.Pos()), id.Name, w, instead)
				}
			}
		}
	}
}

// declarations returns the identifiers that a file declares.
func declarations(file *ast.File) []*ast.Ident {
	all := []*ast.Ident{file.Name}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					all = append(all, id)
				}
			}
		}
		return true
	})
	return all
}

// nameWords splits a name at capital letters and underscores: "oldHTTPName" is old, http, name.
func nameWords(name string) []string {
	var words []string
	var word []rune
	letters := []rune(name)
	for i, r := range letters {
		upper := unicode.IsUpper(r)
		begins := upper && i > 0 && (!unicode.IsUpper(letters[i-1]) ||
			i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if (begins || r == '_') && len(word) > 0 {
			words, word = append(words, string(word)), nil
		}
		if r != '_' {
			word = append(word, unicode.ToLower(r))
		}
	}
	return append(words, string(word))
}

func TestNameWords(t *testing.T) {
	for name, want := range map[string][]string{
		"oldHTTPName": {"old", "http", "name"},
		"queue_test":  {"queue", "test"},
		"OIDC":        {"oidc"},
		"mended":      {"mended"},
	} {
		if got := nameWords(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
