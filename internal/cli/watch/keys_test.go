package watch

import (
	"reflect"
	"testing"

	"pando/internal/api"
)

// TestKeys: the byte sequences of keys, several at once, and keys without a meaning.
func TestKeys(t *testing.T) {
	got := parseKeys([]byte("jx\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[24~q"))
	if want := []watchKey{downKey, upKey, downKey, pageUpKey, pageDownKey, quitKey}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	v := watchView{nodes: make([]api.Node, 30)}
	for _, x := range []struct {
		key  watchKey
		want int
	}{{upKey, 0}, {downKey, 1}, {pageDownKey, 11}, {pageDownKey, 11}, {pageUpKey, 0}, {endKey, 11}, {topKey, 0}} {
		if v.move(x.key, 24); v.top != x.want {
			t.Errorf("key %d: at %d, want %d", x.key, v.top, x.want)
		}
	}
	if v.top = 25; v.topFor(40) != 0 {
		t.Error("a table that fits does not begin at its beginning")
	}
}
