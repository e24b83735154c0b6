package cmdenv

import (
	"strings"
	"testing"
)

// The text about a change says when nodes apply it.
func TestPrintChange(t *testing.T) {
	for _, x := range []struct {
		changed []string
		dry     bool
		want    string
	}{
		{nil, false, "group lab: as it was\n"},
		{[]string{"image: a -> b"}, false, "group lab: image: a -> b\nthe next boot of 3 nodes differs\n"},
		{[]string{"image: a -> b"}, true, "group lab: image: a -> b\nthe next boot of 3 nodes would differ; " +
			"nothing was done\n"},
		{[]string{"extensions: none -> x"}, false, "group lab: extensions: none -> x\n3 nodes follow: those that " +
			"run at once, others at their next boot\n"},
		{[]string{"extensions: none -> x"}, true, "group lab: extensions: none -> x\n3 nodes would follow, those " +
			"that run at once; nothing was done\n"},
		{[]string{"image: a -> b", "extensions: none -> x"}, false,
			"group lab: image: a -> b; extensions: none -> x\nthe next boot of 3 nodes differs; in extensions, " +
				"those that run follow at once\n"},
	} {
		var out strings.Builder
		env := &Env{Out: &out}
		PrintChange(env, "group lab", x.changed, x.dry, 3)
		if out.String() != x.want {
			t.Errorf("%q, dry run %v: %q, want %q", x.changed, x.dry, out.String(), x.want)
		}
	}
}
