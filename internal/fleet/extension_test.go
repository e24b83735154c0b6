package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestExtensionsOfAGroup(t *testing.T) {
	for list, want := range map[string]string{
		"tools":              "",
		"tools more:stable":  "",
		"tools tools:stable": "given twice",
		"Tools":              "a-z",
		"a b c d e f g h i":  "at the most",
	} {
		refs := strings.Fields(list)
		err := Group{Name: "lab", Settings: Settings{Keeping: Keeping{Extensions: &refs}}}.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

func TestExtensionsKey(t *testing.T) {
	a, b := Extension{"a", "sha256:1"}, Extension{"b", "sha256:2"}
	keys := []string{
		ExtensionsKey(nil),
		ExtensionsKey([]Extension{a}),
		ExtensionsKey([]Extension{b}),
		ExtensionsKey([]Extension{a, b}),
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != 4 || !slices.Contains(keys, "none") {
		t.Errorf("keys %q", keys)
	}
	if ExtensionsKey([]Extension{b, a}) != ExtensionsKey([]Extension{a, b}) {
		t.Error("the order makes a difference")
	}
	if got := Lacking([]Extension{a, b}, []Extension{a, {"b", "sha256:3"}}); !slices.Equal(got, []Extension{b}) {
		t.Errorf("lacking %v", got)
	}
}
