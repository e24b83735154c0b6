package fleet

import (
	"errors"
	"fmt"
)

// Set selects nodes. It is what people write as pc[001-120]!pc007&@lab,room=b12.
//
//	pc007                 the node of this name
//	pc[001-120,130]       the nodes of these names; a bracket may stand several times in a name
//	pc1*                  the nodes whose names begin so; a star may stand anywhere in a name, and several times
//	52:54:00:12:34:56     the node that has this MAC
//	@lab                  the members of group lab
//	@all, @discovered     every node; every node that nobody adopted
//	room=b12              nodes with this value of the label; "room=" those without a value
//	room="B & C"          a value in quotes may have any of , & ! ^ ( ) in it
//
// Terms are joined from left to right, without precedence, as in ClusterShell: "," is union, "&" intersection, "!"
// difference, and "^" symmetric difference. A set in parentheses is one term.
type Set struct {
	text string
	root steps

	names  []string // in the order written
	known  map[string]bool
	macs   map[MAC]bool
	groups []string
}

// MaxSet bounds how many names a set may expand to.
const MaxSet = 65536

// maxDepth bounds how deeply parentheses may be nested.
const maxDepth = 16

// steps are the terms of a set from left to right, each with its operator.
type steps []step

type step struct {
	join byte // one of , & ! ^
	has  func(Node) bool
}

func (s steps) match(n Node) bool {
	in := false
	for _, t := range s {
		switch t.join {
		case ',':
			in = in || t.has(n)
		case '&':
			in = in && t.has(n)
		case '!':
			in = in && !t.has(n)
		case '^':
			in = in != t.has(n)
		}
	}
	return in
}

// ParseSet parses a node set. The empty set is an error, because it is always a mistake.
func ParseSet(s string) (Set, error) {
	set := Set{text: s, known: map[string]bool{}, macs: map[MAC]bool{}}
	p := setParser{rest: s, set: &set}
	var err error
	if set.root, err = p.steps(0); err == nil && p.rest != "" {
		err = errors.New("parentheses do not match")
	}
	if err != nil {
		return Set{}, fmt.Errorf("node set %q: %w", s, err)
	}
	return set, nil
}

// String returns the set as it was written.
func (s Set) String() string { return s.text }

// Names returns the names that the set lists, in the order written, including names that it subtracts.
func (s Set) Names() []string { return s.names }

// Groups returns the groups that the set names, possibly with repetitions.
func (s Set) Groups() []string { return s.groups }

// Match reports whether n is in the set.
func (s Set) Match(n Node) bool { return s.root.match(n) }

// Select returns the nodes of the set, in the order of nodes. missing has the terms that name a single node which does
// not exist, usually a typing error.
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
