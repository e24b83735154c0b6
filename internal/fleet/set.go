package fleet

import (
	"fmt"
	"strings"
)

// Set selects nodes: the union of its terms. It is what people write as pc[001-120],@lab,room=b12.
//
//	pc007                 the node of this name
//	pc[001-120,130]       the nodes of these names; a bracket may stand several times in a name
//	52:54:00:12:34:56     the node that has this MAC
//	@lab                  the members of group lab
//	@all, @discovered     every node; every node that nobody adopted
//	room=b12              nodes with this value of the label; "room=" those without a value
type Set struct {
	text  string
	names []string // in the order written
	known map[string]bool
	macs  map[MAC]bool
	ats   map[string]bool
	label [][2]string
}

// MaxSet bounds how many names a set may spell out.
const MaxSet = 65536

// ParseSet reads a node set. The empty set is an error: nobody means it.
func ParseSet(s string) (Set, error) {
	set := Set{text: s, known: map[string]bool{}, macs: map[MAC]bool{}, ats: map[string]bool{}}
	terms, err := splitTerms(s)
	if err != nil {
		return Set{}, err
	}
	for _, term := range terms {
		if err := set.add(term); err != nil {
			return Set{}, fmt.Errorf("node set %q: %w", s, err)
		}
	}
	return set, nil
}

// String is the set as it was written.
func (s Set) String() string { return s.text }

// splitTerms cuts at commas that stand outside of brackets.
func splitTerms(s string) ([]string, error) {
	var terms []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ',' && depth == 0:
			terms = append(terms, strings.TrimSpace(s[start:i]))
			start = i + 1
		case s[i] == '[':
			depth++
		case s[i] == ']':
			depth--
		}
		if depth < 0 || depth > 1 || i == len(s) && depth != 0 {
			return nil, fmt.Errorf("node set %q: brackets do not match", s)
		}
	}
	return terms, nil
}

func (s *Set) add(term string) error {
	if group, ok := strings.CutPrefix(term, "@"); ok {
		s.ats[group] = true
		return ValidName("group", group)
	}
	if key, value, ok := strings.Cut(term, "="); ok {
		s.label = append(s.label, [2]string{key, value})
		return ValidLabel(key, value)
	}
	if strings.Contains(term, ":") {
		m, err := ParseMAC(term)
		s.macs[m] = true
		return err
	}
	names, err := expand(term, MaxSet-len(s.names))
	if err != nil {
		return err
	}
	for _, n := range names {
		if !s.known[n] {
			s.known[n] = true
			s.names = append(s.names, n)
		}
	}
	return nil
}

// Names are the names that the set spells out, in the order written.
func (s Set) Names() []string { return s.names }

// Match reports whether n is in the set.
func (s Set) Match(n Node) bool {
	if s.known[n.Name] || s.ats[SetAll] || s.ats[n.Group] || s.ats[SetDiscovered] && n.State == Discovered {
		return true
	}
	for _, m := range n.MACs {
		if s.macs[m] {
			return true
		}
	}
	for _, l := range s.label {
		if v, ok := n.Labels[l[0]]; ok && v == l[1] || !ok && l[1] == "" {
			return true
		}
	}
	return false
}

// Select returns the nodes of the set, in the order of nodes, and the terms that name one node which is not
// among them: a typing error, as a rule.
func (s Set) Select(nodes []Node) (selected []Node, missing []string) {
	names, macs := map[string]bool{}, map[MAC]bool{}
	for _, n := range nodes {
		names[n.Name] = true
		for _, m := range n.MACs {
			macs[m] = true
		}
		if s.Match(n) {
			selected = append(selected, n)
		}
	}
	for _, n := range s.names {
		if !names[n] {
			missing = append(missing, n)
		}
	}
	for m := range s.macs {
		if !macs[m] {
			missing = append(missing, m.String())
		}
	}
	return selected, missing
}
