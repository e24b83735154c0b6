package fleetfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks a YAML document by hand. A decoder would name Go types in its error for an unknown key, and take "on"
// for true.
type reader struct {
	problems
	visits int
}

// maxVisits bounds the values of a document, because aliases can expand a short text to a very long one.
const maxVisits = 2_000_000

// parse returns the top node of a document, or nil after it has added an error.
func (r *reader) parse(text []byte) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		r.add(0, "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if doc.Kind == 0 || len(doc.Content) == 0 {
		r.add(0, "", "it is empty")
		return nil
	}
	return doc.Content[0]
}

// real follows an alias, and counts visited values.
func (r *reader) real(n *yaml.Node) *yaml.Node {
	if r.visits++; r.visits == maxVisits {
		r.add(n.Line, "", "the file stands for more than %d values", maxVisits)
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// entries calls fn for each key of a mapping. A repeated key is an error.
func (r *reader) entries(n *yaml.Node, what string, fn func(key, value *yaml.Node)) {
	if n = r.real(n); isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, "", "%s: want keys with values, such as `name: value`", what)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if r.full() || r.visits > maxVisits {
			return
		}
		if key.Kind != yaml.ScalarNode {
			r.add(key.Line, "", "%s: a key is one word", what)
			continue
		}
		if at := seen[key.Value]; at > 0 {
			r.add(key.Line, "", "%s: %q stands in line %d already", what, key.Value, at)
			continue
		}
		seen[key.Value] = key.Line
		fn(key, value)
	}
}

// fields reads a mapping with known keys. A key without a value counts as absent. It returns the keys that have a
// value.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) (given []string) {
	r.entries(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			r.add(key.Line, "", "%s: %s", what, unknown(key.Value, slices.Sorted(maps.Keys(known))))
			return
		}
		if isNull(r.real(value)) {
			return
		}
		given = append(given, key.Value)
		read(value)
	})
	return given
}

// text reads a single value.
func (r *reader) text(n *yaml.Node) string {
	if n = r.real(n); n.Kind != yaml.ScalarNode {
		r.add(n.Line, "", "want one value, not several")
		return ""
	}
	return n.Value
}

// words reads a list of words. A single word is a list of one.
func (r *reader) words(n *yaml.Node) []string {
	if n = r.real(n); n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	if n.Kind != yaml.SequenceNode {
		r.add(n.Line, "", "want a list, such as [a, b]")
		return nil
	}
	out := []string{}
	for _, x := range n.Content {
		if r.full() {
			break
		}
		out = append(out, r.text(x))
	}
	return out
}

// unknown returns an error text for an unknown word, with the known word that was probably meant.
func unknown(word string, known []string) string {
	best, distance := "", 1+len(word)/2
	for _, k := range known {
		if d := distanceOf(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("unknown key %q; did you mean %q?", word, best)
	}
	return fmt.Sprintf("unknown key %q; the keys are %s", word, strings.Join(known, ", "))
}

// distanceOf returns the Levenshtein distance of a and b: letters to insert, remove or replace.
func distanceOf(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, change)
		}
	}
	return row[len(b)]
}
