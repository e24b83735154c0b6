package chunk

import (
	"strings"
	"testing"
)

// TestShortID: a short ID is the beginning of an ID, also as text; other texts are refused.
func TestShortID(t *testing.T) {
	id := Sum([]byte("a"))
	for _, s := range []string{id.Name()[:16], id.Name(), id.String()} {
		if b, err := ParseShortID(s); err != nil || b != id.Short() || b.String() != id.Name()[:16] {
			t.Errorf("%q is %s, %v", s, b, err)
		}
	}
	for _, s := range []string{"", id.Name()[:15], id.Name()[:17], strings.ToUpper(id.Name()[:16]),
		"g" + id.Name()[:15], id.Name() + "0"} {
		var b ShortID
		if err := b.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is %s", s, b)
		}
	}
}
