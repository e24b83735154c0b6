package fleet

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamingNext(t *testing.T) {
	for _, c := range []struct {
		rule, taken, want string
	}{
		{"pc[001-]", "", "pc001"},
		{"pc[001-]", "pc001 pc002 pc004", "pc003"},
		{"node[9-]", "node9", "node10"},
		{"rack1-[01-02].lab", "rack1-01.lab", "rack1-02.lab"},
		{"pc[999-]", "pc999", "pc1000"},
	} {
		n, err := ParseNaming(c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		taken := strings.Fields(c.taken)
		if got, err := n.Next(func(s string) bool { return slices.Contains(taken, s) }); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.rule, got, err, c.want)
		}
	}
}

func TestNamingRefuses(t *testing.T) {
	for _, rule := range []string{"", "pc", "pc[1]", "pc[-]", "pc[a-]", "pc[2-1]", "PC[1-]", "pc[1-]]", "-[1-]",
		"pc[1-][2-]", strings.Repeat("a", 70) + "[1-]"} {
		if _, err := ParseNaming(rule); err == nil {
			t.Errorf("%q was taken", rule)
		}
	}
	n, err := ParseNaming("pc[1-2]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Next(func(string) bool { return true }); err == nil || !strings.Contains(err.Error(), "pc[1-2]") {
		t.Errorf("a rule that is used up: %v", err)
	}
}

func TestCompareNames(t *testing.T) {
	want := []string{"1", "a", "n01", "n1", "n2", "n10", "n10a", "n10b2", "n10b10", "nx", "r1-n2", "r1-n10", "r2-n1"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, CompareNames)
	if !slices.Equal(got, want) {
		t.Errorf("sorted %v\nwant   %v", got, want)
	}
}

// TestCompareNamesIsAnOrder: antisymmetric, transitive, and equal only for equal names.
func TestCompareNamesIsAnOrder(t *testing.T) {
	name := rapid.StringMatching(`[a-b0-2]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		ab, ba, bc, ac := CompareNames(a, b), CompareNames(b, a), CompareNames(b, c), CompareNames(a, c)
		if ab != -ba || (ab == 0) != (a == b) {
			t.Fatalf("%q %q: %d and %d", a, b, ab, ba)
		}
		if ab <= 0 && bc <= 0 && ac > 0 {
			t.Fatalf("%q <= %q <= %q, but not %q <= %q", a, b, c, a, c)
		}
	})
}
