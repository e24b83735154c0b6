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

// functions are what templates can call beside the library's own. Those of the library that make long text of short
// text are bounded, because a template is rendered in the server.
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

// wide finds what makes long text of nothing.
var wide = regexp.MustCompile(`%[^%a-zA-Z]*(\*|[0-9]{4})`)

// iterate counts; it prints nothing.
func (r *rendering) iterate() (string, error) {
	if r.iterations++; r.iterations > maxIterations {
		return "", errIterations
	}
	return "", nil
}

// useSecret is the value of a secret, and notes that it was used.
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

// label is a label of the node, or something else where it does not have it: {{label .Labels "rack" "none"}}.
func label(labels map[string]string, key, otherwise string) string {
	if v, ok := labels[key]; ok {
		return v
	}
	return otherwise
}

// joined makes text of values that are not too long to begin with.
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
