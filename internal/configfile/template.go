package configfile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"pando/internal/fleet"
)

// Error returns what is wrong with a template, and where.
type Error struct {
	File string // path of the config file, and the node or group that it is for
	Line int    // 0: unknown
	Key  string // the expression at fault, ".Labels.rack"; "" for a syntax error
	Text string
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += fmt.Sprintf(":%d", e.Line)
	}
	if e.Key != "" {
		at += ": {{" + e.Key + "}}"
	}
	return at + ": " + e.Text
}

// Secret returns the value of a secret for the node that is rendered, or an error that says why the node has none.
type Secret func(name string) (string, error)

// Rendered is a config file for one node.
type Rendered struct {
	fleet.File
	Secrets []string // names of the secrets that it contains
}

// Check parses a declared file as a node's boot would. It finds the errors that do not depend on a node.
func Check(f fleet.ConfigFile) error {
	if err := f.Validate(); err != nil || f.Verbatim {
		return err
	}
	_, err := (&rendering{file: f}).parse()
	return err
}

// Render renders the file for one node. A file without a mode gets 0600 if it contains secrets, else 0644.
func Render(f fleet.ConfigFile, d Data, secret Secret) (Rendered, error) {
	r := rendering{file: f, secret: secret}
	out := Rendered{File: fleet.File{Path: f.Path, Mode: f.Mode, Owner: f.Owner, Run: f.Run, Data: f.Content}}
	if !f.Verbatim {
		t, err := r.parse()
		if err != nil {
			return out, err
		}
		if err := t.Execute(&r, d); err != nil {
			return out, r.located(err)
		}
		out.Data, out.Secrets = r.out, r.secrets
	}
	if out.Mode == 0 {
		out.Mode = 0o644
		if len(out.Secrets) > 0 {
			out.Mode = 0o600
		}
	}
	return out, nil
}

// maxIterations bounds the iterations of all loops and nested template calls of one file.
const maxIterations = 100_000

var (
	errLarge      = fmt.Errorf("the file would have more than %d bytes", fleet.MaxConfigFile)
	errIterations = fmt.Errorf("its loops run more than %d times", maxIterations)
)

// rendering is the state of one template while it is rendered.
type rendering struct {
	file       fleet.ConfigFile
	secret     Secret
	secrets    []string
	values     []string // of the secrets, to keep them out of errors
	out        []byte
	iterations int
}

// Write appends the template's output, up to fleet.MaxConfigFile bytes.
func (r *rendering) Write(b []byte) (int, error) {
	if len(r.out)+len(b) > fleet.MaxConfigFile {
		return 0, errLarge
	}
	r.out = append(r.out, b...)
	return len(b), nil
}

// nameInErrors is the template's name in the library's errors. The file's path is not used, because it may contain
// colons.
const nameInErrors = "file"

func (r *rendering) parse() (*template.Template, error) {
	t, err := template.New(nameInErrors).Option("missingkey=error").Funcs(r.functions()).Parse(string(r.file.Content))
	if err != nil {
		return nil, r.located(err)
	}
	iterate, err := template.New("").Funcs(r.functions()).Parse("{{turn}}")
	if err != nil {
		return nil, fmt.Errorf("count iterations: %w", err)
	}
	for _, part := range t.Templates() {
		if part.Tree != nil && part.Root != nil {
			count(part.Root, iterate.Root.Nodes[0])
		}
	}
	return t, nil
}

// count inserts a call of turn (iterate) at the beginning of a list and of all lists in it.
func count(list *parse.ListNode, iterate parse.Node) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			count(n.List, iterate)
			count(n.ElseList, iterate)
		case *parse.IfNode:
			count(n.List, iterate)
			count(n.ElseList, iterate)
		case *parse.WithNode:
			count(n.List, iterate)
			count(n.ElseList, iterate)
		}
	}
	list.Nodes = append([]parse.Node{iterate}, list.Nodes...)
}

// place matches the beginning of the library's errors: template name, line, an optional column, and the expression.
var place = regexp.MustCompile(`^template: [^:]*:(\d+):(?:\d+:)? ?(?:executing "[^"]*" at <(.*?)>: )?`)

// located converts an error of the library: it names the file and line, and removes the values of secrets.
func (r *rendering) located(err error) error {
	out := &Error{File: fmt.Sprintf("config file %s of %s", r.file.Path, r.file.For), Text: err.Error()}
	if m := place.FindStringSubmatch(out.Text); m != nil {
		out.Line, _ = strconv.Atoi(m[1]) // digits; one too large for a line stays 0
		out.Key, out.Text = m[2], out.Text[len(m[0]):]
	}
	if _, own, ok := strings.Cut(out.Text, "error calling "); ok {
		_, out.Text, _ = strings.Cut(own, ": ")
	}
	if key, ok := strings.CutPrefix(out.Text, "map has no entry for key "); ok {
		out.Text = "the node has no " + strings.Trim(key, `"`)
	}
	for _, value := range r.values {
		if value != "" {
			out.Text = strings.ReplaceAll(out.Text, value, "***")
		}
	}
	return out
}
