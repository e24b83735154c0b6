package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestParseSet(t *testing.T) {
	for in, want := range map[string][]string{
		"pc007":              {"pc007"},
		"pc[001-003]":        {"pc001", "pc002", "pc003"},
		"pc[9-11]":           {"pc9", "pc10", "pc11"},
		"pc[08-10,1]":        {"pc08", "pc09", "pc10", "pc1"},
		"r[1-2]n[1,3]x":      {"r1n1x", "r1n3x", "r2n1x", "r2n3x"},
		"a, b,a":             {"a", "b"},
		"pc[1-2],@lab,x=y,c": {"pc1", "pc2", "c"},
	} {
		s, err := ParseSet(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if !slices.Equal(s.Names(), want) {
			t.Errorf("%s: %v, want %v", in, s.Names(), want)
		}
		if s.String() != in {
			t.Errorf("%s: String is %s", in, s)
		}
	}
}

func TestParseSetRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "host name",
		"a,,b":                    "host name",
		"pc[1-":                   "brackets",
		"pc]1[":                   "brackets",
		"pc[[1]]":                 "brackets",
		"pc[]":                    "not a number",
		"pc[a-b]":                 "not a number",
		"pc[3-1]":                 "ends before it begins",
		"pc[1-999999999]":         "more than 65536 names",
		"pc[1-300][1-300]":        "more than 65536 names",
		"pc[1-65536],pc[1-65536]": "more than 65536 names",
		"pc[1-1111111111]":        "not a number",
		"PC1":                     "host name",
		"@":                       "group name",
		"@no group":               "group name",
		"=x":                      "label",
		"1:2:3":                   "MAC",
		"pc_1":                    "host name",
	} {
		if _, err := ParseSet(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", in, err, want)
		}
	}
}

func TestSetSelect(t *testing.T) {
	m := MAC{2, 0, 0, 0, 0, 9}
	nodes := []Node{
		{Name: "pc1", Group: "lab", State: Adopted},
		{Name: "pc2", Group: "lab", State: Adopted, Labels: map[string]string{"room": "b12"}},
		{Name: "pc3", Group: "default", State: Adopted, Labels: map[string]string{"room": ""}},
		{Name: "mac-020000000009", Group: "default", State: Discovered, MACs: []MAC{m}},
	}
	for in, want := range map[string]string{
		"pc1":               "pc1",
		"pc[1-2]":           "pc1 pc2",
		"@lab":              "pc1 pc2",
		"@all":              "pc1 pc2 pc3 mac-020000000009",
		"@discovered":       "mac-020000000009",
		"room=b12":          "pc2",
		"room=":             "pc1 pc3 mac-020000000009",
		"02:00:00:00:00:09": "mac-020000000009",
		"pc3,@lab,room=b12": "pc1 pc2 pc3",
		"@none":             "",
		"pc9,pc1":           "pc1 / pc9",
		"02:00:00:00:00:0a": " / 02:00:00:00:00:0a",
	} {
		s, err := ParseSet(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		selected, missing := s.Select(nodes)
		var names []string
		for _, n := range selected {
			names = append(names, n.Name)
		}
		got := strings.Join(names, " ")
		if len(missing) > 0 {
			got += " / " + strings.Join(missing, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// FuzzParseSet: whatever is typed, the answer is an error or a set of bounded size whose names are names.
func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"pc[001-120],@lab,room=b12", "52:54:00:12:34:56", "a[1-2]b[3,5]", "pc[1-999999999]", "a[[", "]", "=", "@", ",", "[1-65536][1-65536]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSet(in)
		if err != nil {
			return
		}
		if len(s.Names()) > MaxSet {
			t.Fatalf("%d names", len(s.Names()))
		}
		for _, n := range s.Names() {
			if err := ValidNodeName(n); err != nil {
				t.Fatal(err)
			}
			if !s.Match(Node{Name: n}) {
				t.Fatalf("%s is not in its own set", n)
			}
		}
		again, err := ParseSet(s.String())
		if err != nil || !slices.Equal(again.Names(), s.Names()) {
			t.Fatalf("read again: %v", err)
		}
	})
}
