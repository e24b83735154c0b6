package swarm

import (
	"fmt"
	"strconv"
	"strings"
)

// pieceList is a list of pieces in a message. In its text, successive pieces are a range: "12-15 20 7". That is half as
// long as JSON numbers.
type pieceList []int

// maxListed bounds a list, so that a short text does not become a long list.
const maxListed = 256

// MarshalText returns the text of a list.
func (l pieceList) MarshalText() ([]byte, error) {
	var b []byte
	for i := 0; i < len(l); {
		last := i
		for last+1 < len(l) && l[last+1] == l[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(l[i]), 10)
		if last > i {
			b = strconv.AppendInt(append(b, '-'), int64(l[last]), 10)
		}
		i = last + 1
	}
	return b, nil
}

// UnmarshalText reads a list of at most maxListed pieces.
func (l *pieceList) UnmarshalText(text []byte) error {
	*l = nil
	for word := range strings.FieldsSeq(string(text)) {
		from, to, many := strings.Cut(word, "-")
		if !many {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, errLast := strconv.ParseUint(to, 10, 31)
		if err != nil || errLast != nil || last < first {
			return fmt.Errorf("pieces: %q is neither a piece nor a range such as 12-15", word)
		}
		if last-first >= uint64(maxListed-len(*l)) {
			return fmt.Errorf("pieces: more than %d", maxListed)
		}
		for p := first; p <= last; p++ {
			*l = append(*l, int(p))
		}
	}
	return nil
}
