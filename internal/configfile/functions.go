package configfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"pando/internal/fleet"
)

// functions returns the functions that templates can call in addition to those of text/template. It replaces library
// functions that can make long text of short text by bounded ones, because the server renders templates.
func (r *rendering) functions() template.FuncMap {
	f := template.FuncMap{
		"turn":   r.iterate,
		"secret": r.useSecret,
		"lower":  strings.ToLower,
		"upper":  strings.ToUpper,
		"join":   func(list []string, between string) (string, error) { return bounded(strings.Join(list, between)) },
		"label":  label,
		"print":  func(v ...any) (string, error) { return joined(v, fmt.Sprint) },
		"println": func(v ...any) (string, error) {
			return joined(v, fmt.Sprintln)
		},
		"printf": func(format string, v ...any) (string, error) {
			if wide.MatchString(format) {
				return "", errors.New("a width of more than three digits, or one that is an argument")
			}
			return joined(append([]any{format}, v...), func(...any) string { return fmt.Sprintf(format, v...) })
		},
	}
	for name, escape := range map[string]func(...any) string{
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	} {
		f[name] = func(v ...any) (string, error) { return joined(v, escape) }
	}
	return f
}

// wide matches printf verbs whose width can produce long text.
var wide = regexp.MustCompile(`%[^%a-zA-Z]*(\*|[0-9]{4})`)

// iterate counts one iteration and prints nothing.
func (r *rendering) iterate() (string, error) {
	if r.iterations++; r.iterations > maxIterations {
		return "", errIterations
	}
	return "", nil
}

// useSecret returns the value of a secret and notes that the file contains it.
func (r *rendering) useSecret(name string) (string, error) {
	if r.secret == nil {
		return "", errors.New("there are no secrets here")
	}
	value, err := r.secret(name)
	if err == nil && !slices.Contains(r.secrets, name) {
		r.secrets, r.values = append(r.secrets, name), append(r.values, value)
	}
	return value, err
}

// label returns a label of the node, or otherwise if the node does not have it: {{label .Labels "rack" "none"}}.
func label(labels map[string]string, key, otherwise string) string {
	if v, ok := labels[key]; ok {
		return v
	}
	return otherwise
}

// joined calls text on values that are short enough, and bounds the result.
func joined(v []any, text func(...any) string) (string, error) {
	n := 0
	for _, x := range v {
		if s, ok := x.(string); ok {
			n += len(s)
		}
	}
	if n > fleet.MaxConfigFile {
		return "", errLarge
	}
	return bounded(text(v...))
}

func bounded(s string) (string, error) {
	if len(s) > fleet.MaxConfigFile {
		return "", errLarge
	}
	return s, nil
}
