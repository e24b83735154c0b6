package chunk

import (
	"strings"
	"testing"
)

// A name begins with its first digits, and with nothing else.
func TestIDBegins(t *testing.T) {
	id := Sum([]byte("a"))
	for _, c := range []struct {
		digits string
		want   bool
	}{{"", true}, {id.Name()[:BriefName], true}, {id.Name(), true}, {id.Name() + "0", false}, {"f" + id.Name()[:BriefName-1], false}, {strings.ToUpper(id.Name()[:BriefName]), false}} {
		if got := id.Begins(c.digits); got != c.want {
			t.Errorf("%s begins with %q: %v", id.Name(), c.digits, got)
		}
	}
}
