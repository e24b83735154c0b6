package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// keys lists the keys of a YAML mapping. If the value of a key is a mapping, or a list of mappings, it has the keys
// of those.
type keys map[string]keys

var recipeKeys = keys{
	"from": nil, "suite": nil, "architecture": nil, "components": nil, "mirrors": nil, "packages": nil,
	"customize": nil, "command_line": nil,
	"files":        {"path": nil, "content": nil, "mode": nil},
	"repositories": {"name": nil, "address": nil, "suites": nil, "components": nil, "architectures": nil, "key": nil},
	"users": {
		"name":          nil,
		"uid":           nil,
		"groups":        nil,
		"shell":         nil,
		"comment":       nil,
		"ssh_keys":      nil,
		"password_hash": nil,
	},
	"units":  {"enable": nil, "disable": nil, "mask": nil},
	"kernel": nil, "kernel_release": nil, "drivers": nil, "locale": nil, "timezone": nil,
}

// checkKeys reports the first key that is unknown or given twice. KnownFields of the YAML library would name a Go
// type in its error.
func checkKeys(recipe string, n *yaml.Node, known keys) error {
	if n.Kind != yaml.MappingNode {
		return &Error{recipe, n.Line, "want keys with values, such as `suite: bookworm`"}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below, ok := known[key.Value]
		switch {
		case !ok:
			return &Error{recipe, key.Line, unknownKey(key.Value, known)}
		case seen[key.Value]:
			return &Error{recipe, key.Line, fmt.Sprintf("key %q is given twice", key.Value)}
		}
		seen[key.Value] = true
		if below != nil && value.Kind == yaml.MappingNode {
			if err := checkKeys(recipe, value, below); err != nil {
				return err
			}
		}
		if below == nil || value.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range value.Content {
			if err := checkKeys(recipe, item, below); err != nil {
				return err
			}
		}
	}
	return nil
}

func unknownKey(key string, known keys) string {
	best, distance := "", 1+len(key)/2
	names := slices.Sorted(maps.Keys(known))
	for _, name := range names {
		if d := editDistance(key, name); d < distance {
			best, distance = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("unknown key %q; did you mean %q?", key, best)
	}
	return fmt.Sprintf("unknown key %q; the keys are %s", key, strings.Join(names, ", "))
}

// editDistance counts the letters to insert, remove or replace to turn a into b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
