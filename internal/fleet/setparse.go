package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// setParser parses a node set from left to right.
type setParser struct {
	rest string
	set  *Set
}

// joins are the operators between terms; ends also has the other characters that end a term.
const (
	joins = ",&!^"
	ends  = joins + "()"
)

// steps parses terms up to the end, or up to an unmatched closing parenthesis.
func (p *setParser) steps(depth int) (steps, error) {
	var out steps
	for join := byte(','); ; {
		has, err := p.term(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, step{join, has})
		p.blanks()
		if p.rest == "" || p.rest[0] == ')' {
			return out, nil
		}
		join, p.rest = p.rest[0], p.rest[1:]
		if strings.IndexByte(joins, join) < 0 {
			return nil, fmt.Errorf("one of %s is missing before %q", joins, string(join)+p.rest)
		}
	}
}

func (p *setParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

// term parses one term, or a set in parentheses.
func (p *setParser) term(depth int) (func(Node) bool, error) {
	p.blanks()
	if after, ok := strings.CutPrefix(p.rest, "("); ok {
		if depth == maxDepth {
			return nil, fmt.Errorf("more than %d parentheses inside each other", maxDepth)
		}
		p.rest = after
		inner, err := p.steps(depth + 1)
		if err != nil {
			return nil, err
		}
		if p.rest, ok = strings.CutPrefix(p.rest, ")"); !ok {
			return nil, errors.New("parentheses do not match")
		}
		return inner.match, nil
	}
	word, err := p.word()
	if err != nil {
		return nil, err
	}
	if word == "" {
		if p.rest == "" {
			return nil, errors.New("a node, @group or label=value is missing at its end")
		}
		return nil, fmt.Errorf("a node, @group or label=value is missing before %q", p.rest)
	}
	return p.set.has(word)
}

// word cuts off one term, including its brackets and a quoted value after "=".
func (p *setParser) word() (string, error) {
	bracket := false
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"' && i > 0 && p.rest[i-1] == '=':
			end := strings.IndexByte(p.rest[i+1:], '"')
			if end < 0 {
				return "", errors.New("quotes do not match")
			}
			word := p.rest[:i+1+end+1]
			p.rest = p.rest[len(word):]
			return word, nil
		case c == '[' && bracket, c == ']' && !bracket:
			return "", errors.New("brackets do not match")
		case c == '[' || c == ']':
			bracket = c == '['
		case !bracket && strings.IndexByte(ends, c) >= 0:
			word := strings.TrimRight(p.rest[:i], " \t")
			p.rest = p.rest[i:]
			return word, nil
		}
	}
	if bracket {
		return "", errors.New("brackets do not match")
	}
	word := strings.TrimRight(p.rest, " \t")
	p.rest = ""
	return word, nil
}

// has returns the test that a term stands for.
func (s *Set) has(term string) (func(Node) bool, error) {
	if group, ok := strings.CutPrefix(term, "@"); ok {
		return s.hasGroup(group)
	}
	if key, value, ok := strings.Cut(term, "="); ok {
		return hasLabel(key, value)
	}
	if strings.Contains(term, ":") {
		m, err := ParseMAC(term)
		s.macs[m] = true
		return func(n Node) bool { return slices.Contains(n.MACs, m) }, err
	}
	if strings.Contains(term, "*") {
		if err := ValidNodeName(strings.ReplaceAll(term, "*", "x")); err != nil {
			return nil, fmt.Errorf("%q: beside stars there is only what names have: a-z 0-9 - and dots", term)
		}
		return func(n Node) bool { return fits(term, n.Name) }, nil
	}
	return s.hasNames(term)
}

func (s *Set) hasGroup(group string) (func(Node) bool, error) {
	switch group {
	case SetAll:
		return func(Node) bool { return true }, nil
	case SetDiscovered:
		return func(n Node) bool { return n.State == Discovered }, nil
	}
	s.groups = append(s.groups, group)
	return func(n Node) bool { return n.Group == group }, ValidName("group", group)
}

func hasLabel(key, value string) (func(Node) bool, error) {
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		value = strings.TrimSuffix(quoted, `"`)
	}
	return func(n Node) bool {
		v, ok := n.Labels[key]
		return ok && v == value || !ok && value == ""
	}, ValidLabel(key, value)
}

func (s *Set) hasNames(term string) (func(Node) bool, error) {
	names, err := expand(term, MaxSet-len(s.names))
	if err != nil {
		return nil, err
	}
	these := make(map[string]bool, len(names))
	for _, n := range names {
		these[n] = true
		if !s.known[n] {
			s.known[n] = true
			s.names = append(s.names, n)
		}
	}
	return func(n Node) bool { return these[n.Name] }, nil
}
