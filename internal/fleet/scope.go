package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// ScopeKind says how a scope names its nodes.
type ScopeKind string

// The kinds of scopes. If two scopes cover the same node, the later kind wins.
const (
	ForAll   ScopeKind = "all"
	ForGroup ScopeKind = "group"
	ForClass ScopeKind = "class"
	ForNode  ScopeKind = "node"
)

// scopeOrder has the kinds in order of precedence, the winner last.
var scopeOrder = []ScopeKind{ForAll, ForGroup, ForClass, ForNode}

// Scope is the set of nodes that something applies to: all, those of a group or a hardware class, or one. As text it is
// "all", "group:lab", "class:nvidia" or "node:pc001".
type Scope struct {
	Kind ScopeKind
	Name string // "" for all
}

// ParseScope parses a scope. It also accepts "@lab" and "@all", as in node sets.
func ParseScope(text string) (Scope, error) {
	if g, ok := strings.CutPrefix(text, "@"); ok {
		text = string(ForGroup) + ":" + g
		if g == SetAll {
			text = string(ForAll)
		}
	}
	kind, name, _ := strings.Cut(text, ":")
	s := Scope{ScopeKind(kind), name}
	return s, s.Validate()
}

// Validate returns why a scope cannot be used.
func (s Scope) Validate() error {
	switch s.Kind {
	case ForAll:
		if s.Name == "" {
			return nil
		}
	case ForGroup:
		return ValidName("group", s.Name)
	case ForClass:
		return ValidName("class", s.Name)
	case ForNode:
		return ValidNodeName(s.Name)
	}
	return fmt.Errorf("%q does not say for which nodes: use all, group:NAME, class:NAME or node:NAME", s.String())
}

// String returns the scope as files and the API have it.
func (s Scope) String() string {
	if s.Name == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + ":" + s.Name
}

// MarshalText returns the scope as files and the API have it.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses what MarshalText returns.
func (s *Scope) UnmarshalText(text []byte) (err error) {
	*s, err = ParseScope(string(text))
	return err
}

// Compare orders scopes: winners come later, and those of one kind are ordered by name.
func (s Scope) Compare(other Scope) int {
	if d := slices.Index(scopeOrder, s.Kind) - slices.Index(scopeOrder, other.Kind); d != 0 {
		return d
	}
	return CompareNames(s.Name, other.Name)
}

// Covers reports whether s applies to a node.
func (s Scope) Covers(n Node, classes []Class) bool {
	switch s.Kind {
	case ForAll:
		return true
	case ForGroup:
		return n.Group == s.Name
	case ForClass:
		return slices.ContainsFunc(classes, func(c Class) bool { return c.Name == s.Name })
	}
	return n.Name == s.Name
}
