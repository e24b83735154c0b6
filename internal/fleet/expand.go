package fleet

import (
	"fmt"
	"strings"
)

// expand spells out a name with brackets: a[1-2]b[3,5] is a1b3 a1b5 a2b3 a2b5. It returns an error for more than limit
// names.
func expand(term string, limit int) ([]string, error) {
	out := []string{""}
	for rest := term; rest != ""; {
		plain, after, bracket := strings.Cut(rest, "[")
		parts := []string{plain}
		rest = ""
		if bracket {
			inner, tail, closed := strings.Cut(after, "]")
			if !closed {
				return nil, fmt.Errorf("%q: brackets do not match", term)
			}
			numbers, err := ranges(inner, limit)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", term, err)
			}
			parts, rest = parts[:0], tail
			for _, n := range numbers {
				parts = append(parts, plain+n)
			}
		}
		if len(out)*len(parts) > limit {
			return nil, fmt.Errorf("%q: more than %d names", term, MaxSet)
		}
		out = product(out, parts)
	}
	for _, name := range out {
		if err := ValidNodeName(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// ranges expands what is inside brackets: 001-003,7. The first number of a range has the width of all its numbers.
func ranges(s string, limit int) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		from, to, dash := strings.Cut(part, "-")
		if !dash {
			to = from
		}
		first, err := number(from)
		if err != nil {
			return nil, err
		}
		last, err := number(to)
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("range %s ends before it begins", part)
		}
		if last-first >= limit-len(out) {
			return nil, fmt.Errorf("range %s: more than %d names", part, MaxSet)
		}
		for i := first; i <= last; i++ {
			out = append(out, fmt.Sprintf("%0*d", len(from), i))
		}
	}
	return out, nil
}
