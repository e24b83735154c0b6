package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultNaming is the naming rule of a new site.
const DefaultNaming = "node[001-]"

// Naming is a rule for names: "pc[001-]" makes pc001, pc002, ... The digits before the dash are the first number and
// the minimum width; a number after the dash is the last one.
type Naming struct {
	prefix, suffix string
	first, last    int
	width          int
}

// maxNumber bounds the numbers in names and sets.
const maxNumber = 999_999_999

// ParseNaming parses a naming rule.
func ParseNaming(rule string) (Naming, error) {
	bad := func(why string) (Naming, error) {
		return Naming{}, fmt.Errorf("naming rule %q: %s; write it like pc[001-] or rack1-[01-48]", rule, why)
	}
	prefix, rest, ok := strings.Cut(rule, "[")
	inner, suffix, closed := strings.Cut(rest, "]")
	from, to, dash := strings.Cut(inner, "-")
	if !ok || !closed || !dash {
		return bad("there is no [first-] in it")
	}
	n := Naming{prefix: prefix, suffix: suffix, width: len(from), last: maxNumber}
	var err error
	if n.first, err = number(from); err != nil {
		return bad(err.Error())
	}
	if to != "" {
		if n.last, err = number(to); err != nil || n.last < n.first {
			return bad("it ends before it begins")
		}
	}
	if err := ValidNodeName(n.Name(n.first)); err != nil {
		return bad(err.Error())
	}
	return n, nil
}

// number parses a decimal number in a name: digits only, at most nine.
func number(s string) (int, error) {
	if s == "" || len(s) > 9 || digits(s) != len(s) {
		return 0, fmt.Errorf("%q is not a number of at most 9 digits", s)
	}
	return strconv.Atoi(s)
}

// Name returns the name with the number i.
func (n Naming) Name(i int) string { return fmt.Sprintf("%s%0*d%s", n.prefix, n.width, i, n.suffix) }

// Next returns the first name of the rule for which taken is false.
func (n Naming) Next(taken func(name string) bool) (string, error) {
	for i := n.first; i <= n.last; i++ {
		name := n.Name(i)
		if err := ValidNodeName(name); err != nil {
			return "", err
		}
		if !taken(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf(
		"naming rule %s[%0*d-%d]%s: every name is taken",
		n.prefix,
		n.width,
		n.first,
		n.last,
		n.suffix,
	)
}
