package swarm

import (
	"fmt"
	"strconv"
	"strings"
)

// pieceList are pieces in a message, in their order. As text those that follow each other are one word: "12-15 20
// 7". A node asks for the next pieces of its pack, of which it has some already; as numbers of JSON they would have
// twice as many bytes, in each of the fifty questions of a boot.
type pieceList []int

// maxListed is how many pieces a list may have, so that a short text does not become a long list.
const maxListed = 256

// MarshalText is the text of a list.
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

// UnmarshalText takes a list from its text. Pieces are not less than 0, and there are at most maxListed.
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
			return fmt.Errorf("pieces: %q is neither a piece nor two with a hyphen, as in 12-15", word)
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
