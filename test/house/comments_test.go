package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

const (
	maxComment     = 3 // lines; a longer explanation belongs on a page of docs
	minPackageText = 3 // lines of a package comment: what it is, what it owns, who calls it, what it must never do
	maxPackageText = 8
)

// puzzling are phrases that a newcomer does not understand, with what to say instead.
var puzzling = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(for|of|to|by|from|with|than|behind|before) who\b`), "the caller, a node that"},
	{regexp.MustCompile(`(?i)\bon the line\b`), "its request is held open"},
	{regexp.MustCompile(`(?i)gone past us|past this server\b`), "this server may not have seen it"},
	{regexp.MustCompile(`(?i)\b(its|his|whose|their|at) turn\b`), "admitted, a slot"},
	{regexp.MustCompile(`(?i)nobody's eyes|in whose hands`), "plain words"},
	{regexp.MustCompile(`(^|[.;] )Who (comes|asks|waits|says|stands|sleeps|wants|has|is|was|does|goes|gets|knows|can|may|` +
		`needs|reads|calls|takes|boots|serves)\b`), "a node that, the caller"},
	{regexp.MustCompile(`(?i)\bhello\b`), "registration"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix, repair"},
	{regexp.MustCompile(`(?i)\bdata path\b`), "image port (8480)"},
	{regexp.MustCompile(`(?i)\bcontrol channel\b`), "control port (8443)"},
	{regexp.MustCompile(`(?i)\bstrangers?\b`), "unknown machine"},
	{regexp.MustCompile(`(?i)\berrands?\b`), "command"},
	{regexp.MustCompile(`(?i)\baccus(e|es|ed|ation)\b`), "report of wrong bytes"},
	{regexp.MustCompile(`(?i)\banew\b`), "again, new"},
	{regexp.MustCompile(`(?i)\bsaid (so|to be)\b`), "declared, configured"},
	{regexp.MustCompile(`(?i)\bheard\b`), "seen, received"},
	{regexp.MustCompile(`(?i)\b(has|sent) word\b|\bword of\b`), "a message"},
	{regexp.MustCompile(`(?i)\bsaw fit\b|\bof old\b|\bbe it\b`), "plain words"},
	{regexp.MustCompile(`(?i)\bkeeper\b|\bguest of\b|\bfull house\b|\bleisure\b|\bcrowd of\b`), "no metaphor"},
}

// wireName is a path or a quoted value of the API, whose words stay.
var wireName = regexp.MustCompile("/[a-z0-9/{}_-]+|\"[^\"]*\"|`[^`]*`|" + `\b[a-z]+_[a-z_]+\b`)

// comment is a comment with what it documents.
type comment struct {
	line  int
	lines []string // without their "//"
	names []string // the declared names if it is a doc comment
}

// Comments say why, briefly, in words that a newcomer understands. What takes longer belongs on a page of docs.
func TestCommentsAreShortAndPlain(t *testing.T) {
	for _, s := range program(sources(t)) {
		for _, fault := range commentFaults(s) {
			t.Error(fault)
		}
	}
}

// The package comment is in doc.go, where it is looked for.
func TestPackageCommentsAreBrief(t *testing.T) {
	found := map[string]bool{}
	for _, s := range program(sources(t)) {
		if !strings.HasPrefix(s.dir, "internal/") && !strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		found[s.dir] = found[s.dir] || path.Base(s.path) == "doc.go"
		if fault := packageCommentFault(s); fault != "" {
			t.Errorf("%s: %s", s.path, fault)
		}
	}
	for dir, ok := range found {
		if !ok {
			t.Errorf("%s has no doc.go", dir)
		}
	}
}

// packageCommentFault returns what is wrong with the package comment of a file, "" if nothing is.
func packageCommentFault(s source) string {
	isDoc := path.Base(s.path) == "doc.go"
	if s.file.Doc == nil {
		if isDoc {
			return "no package comment"
		}
		return ""
	}
	if !isDoc {
		return "its package comment belongs in doc.go"
	}
	n := 0
	for _, l := range textLines(s.file.Doc) {
		if strings.TrimSpace(l) != "" && !tabular(l) {
			n++
		}
	}
	if n < minPackageText || n > maxPackageText {
		return fmt.Sprintf("a package comment of %d lines, want %d to %d", n, minPackageText, maxPackageText)
	}
	return ""
}

// commentFaults returns what is wrong with the comments of a file.
func commentFaults(s source) []string {
	var faults []string
	for _, c := range comments(s) {
		excepted := path.Base(s.path) == "doc.go" || c.names != nil && hasTable(c.lines)
		if n := len(c.lines); n > maxComment && !excepted {
			faults = append(faults, fmt.Sprintf("%s:%d: a comment of %d lines, at most %d are allowed",
				s.path, c.line, n, maxComment))
		}
		text := strings.Join(strings.Fields(strings.Join(c.lines, " ")), " ")
		if first := misnamed(text, c.names); first != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: documents %s, declares %s",
				s.path, c.line, first, strings.Join(c.names, ", ")))
		}
		plain := wireName.ReplaceAllString(text, "")
		for _, p := range puzzling {
			if m := p.phrase.FindString(plain); m != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %q is hard to understand: %s",
					s.path, c.line, m, p.instead))
			}
		}
	}
	return faults
}

// comments returns the comments of a file, without directives.
func comments(s source) []comment {
	names := map[*ast.CommentGroup][]string{}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[d.Doc] = []string{d.Name.Name}
		case *ast.GenDecl:
			names[d.Doc] = nil
			for _, spec := range d.Specs {
				doc, declared := declares(spec)
				names[d.Doc] = append(names[d.Doc], declared...)
				names[doc] = declared
			}
		}
	}
	var all []comment
	for _, g := range s.file.Comments {
		if lines := textLines(g); len(lines) > 0 {
			all = append(all, comment{s.line(g.Pos()), lines, names[g]})
		}
	}
	return all
}

// declares returns the doc comment of one declaration and its names.
func declares(spec ast.Spec) (*ast.CommentGroup, []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc, []string{spec.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, n := range spec.Names {
			names = append(names, n.Name)
		}
		return spec.Doc, names
	}
	return nil, nil
}

// textLines returns the lines of a comment without their marks and without directives.
func textLines(g *ast.CommentGroup) []string {
	var lines []string
	for _, c := range g.List {
		text, ok := strings.CutPrefix(c.Text, "//")
		if !ok || strings.HasPrefix(text, "go:") {
			continue
		}
		lines = append(lines, text)
	}
	return lines
}

// tabular reports whether a line is of an indented table.
func tabular(line string) bool { return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") }

func hasTable(lines []string) bool {
	for _, l := range lines {
		if tabular(l) {
			return true
		}
	}
	return false
}

// camelCase is a word that only an identifier has.
var camelCase = regexp.MustCompile(`^([a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)\b`)

// misnamed returns the identifier that a doc comment begins with, if it is not declared there.
func misnamed(text string, declared []string) string {
	first := camelCase.FindString(text)
	if len(declared) == 0 || first == "" {
		return ""
	}
	for _, name := range declared {
		if name == first {
			return ""
		}
	}
	return first
}

func TestFaultsOfCommentsAreFound(t *testing.T) {
	for _, tt := range []struct{ file, text, want string }{
		{"a.go", "// one\n// two\n// three\n// four\nvar x int", "4 lines"},
		{"a.go", "func f() {\n// one\n// two\n// three\n//  four\nf()\n}", "4 lines"},
		{"a.go", "// one\n// two\n// three\nvar x int", ""},
		{"a.go", "// f reads:\n//\n//\ta table\n//\tof rows\nfunc f() {}", ""},
		{"a.go", "// readAll does it.\nfunc readSome() {}", "documents readAll, declares readSome"},
		{"a.go", "type (\n// OldName is it.\nNewName int\n)", "documents OldName"},
		{"a.go", "// OldName is it.\nconst NewName = 1", "documents OldName"},
		{"a.go", "// maxRows bounds both.\nconst (\nmaxRows = 1\nmaxCells = 2\n)", ""},
		{"a.go", "// f waits until it is at turn.\nfunc f() {}", "hard to understand"},
		{"a.go", "var x int // signed anew", "hard to understand"},
		{"a.go", "// f answers POST /v1/node/hello.\nfunc f() {}", ""},
	} {
		got := strings.Join(commentFaults(planted(t, tt.file, "package x\n\n"+tt.text+"\n")), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%q: found %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, tt := range []struct{ file, text, want string }{
		{"a.go", "// Package x is it.", "belongs in doc.go"},
		{"doc.go", "", "no package comment"},
		{"doc.go", "// Package x is it.\n//\n// It owns.", "of 2 lines"},
		{"doc.go", strings.Repeat("// Package x is it.\n", 9), "of 9 lines"},
		{"doc.go", strings.Repeat("// Package x is it.\n", 8) + "//\n//\trow\n//\trow", ""},
	} {
		got := packageCommentFault(planted(t, tt.file, strings.TrimSpace(tt.text)+"\npackage x\n"))
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%q: found %q, want %q", tt.text, got, tt.want)
		}
	}
}

// planted parses the text of a file.
func planted(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{"internal/x/" + name, "internal/x", false, f, fset}
}
