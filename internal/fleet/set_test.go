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
		"":                        "missing at its end",
		"a,,b":                    `missing before ",b"`,
		"a,":                      "missing at its end",
		"!a":                      `missing before "!a"`,
		"a&(b,c":                  "parentheses",
		"a)":                      "parentheses",
		"(a)b":                    `missing before "b"`,
		"()":                      `missing before ")"`,
		`a="b`:                    "quotes",
		`a="b"c`:                  `missing before "c"`,
		"pc*_":                    "beside stars",
		strings.Repeat("(", 17):   "inside each other",
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
		{Name: "pc3", Group: "default", State: Adopted, Labels: map[string]string{"room": "", "site": "a (b) & c!"}},
		{Name: "mac-020000000009", Group: "default", State: Discovered, MACs: []MAC{m}},
	}
	for in, want := range map[string]string{
		"pc1":                             "pc1",
		"pc[1-2]":                         "pc1 pc2",
		"@lab":                            "pc1 pc2",
		"@all":                            "pc1 pc2 pc3 mac-020000000009",
		"@discovered":                     "mac-020000000009",
		"room=b12":                        "pc2",
		"room=":                           "pc1 pc3 mac-020000000009",
		"02:00:00:00:00:09":               "mac-020000000009",
		"pc3,@lab,room=b12":               "pc1 pc2 pc3",
		"@none":                           "",
		"pc9,pc1":                         "pc1 / pc9",
		"pc[1-3]!pc2":                     "pc1 pc3",
		"pc[1-3]!pc[2,9]":                 "pc1 pc3 / pc9",
		"@all&@lab!pc1":                   "pc2",
		"@lab&room=b12":                   "pc2",
		"pc3,@lab&room=b12":               "pc2", // from left to right
		"pc3,(@lab&room=b12)":             "pc2 pc3",
		"@lab^pc[2-3]":                    "pc1 pc3",
		" @all ! ( @lab , @discovered ) ": "pc3",
		`@all!room="b12"`:                 "pc1 pc3 mac-020000000009",
		`site="a (b) & c!"`:               "pc3",
		"pc*":                             "pc1 pc2 pc3",
		"p*2,*09":                         "pc2 mac-020000000009",
		"pc*1*":                           "pc1",
		"02:00:00:00:00:0a":               " / 02:00:00:00:00:0a",
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

// FuzzParseSet: every text gives an error, or a set of bounded size whose names are valid.
func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"pc[001-120],@lab,room=b12", "52:54:00:12:34:56", "a[1-2]b[3,5]", "pc[1-999999999]",
		"a[[", "]", "=", "@", ",", "[1-65536][1-65536]",
		"pc[001-120]!pc007&@lab1", "(a,b)^c", `room="B & C"!x`, "pc*&rack=r3", "((", "a!(b"} {
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
			if !strings.ContainsAny(in, "&!^") && !s.Match(Node{Name: n}) {
				t.Fatalf("%s is not in its own set", n)
			}
		}
		again, err := ParseSet(s.String())
		if err != nil || !slices.Equal(again.Names(), s.Names()) {
			t.Fatalf("read again: %v", err)
		}
	})
}

func TestFold(t *testing.T) {
	for want, names := range map[string]string{
		"":                       "",
		"gate":                   "gate",
		"pc7":                    "pc7",
		"pc[001-003]":            "pc003 pc001 pc002 pc001",
		"pc[8-11]":               "pc11 pc10 pc9 pc8",
		"pc[01,1-3,03,7]":        "pc1 pc01 pc2 pc3 pc03 pc7",
		"gate,pc[1-2]x,pc[2-3]y": "pc1x pc2x pc2y pc3y gate",
		"r[1-2]":                 "r1 r2",
		"r1n[1-2],r2n[1-2]":      "r1n1 r1n2 r2n1 r2n2",
		"mac-525400000009":       "mac-525400000009",
		"x999999999":             "x999999999",
	} {
		if got := Fold(strings.Fields(names)); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
}

// sorted returns the names of a set in natural order.
func sorted(t *testing.T, set string) string {
	t.Helper()
	if set == "" {
		return ""
	}
	s, err := ParseSet(set)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.SortedFunc(slices.Values(s.Names()), CompareNames)
	return strings.Join(names, " ")
}

// FuzzFold: the folded text expands to the original names.
func FuzzFold(f *testing.F) {
	for _, s := range []string{"pc001 pc002 pc010", "a b c", "a1b1 a1b2 a2b1", "9 10 11 09", "x999999999 " +
		"x1000000000", "00 0 000 1 01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var names []string
		for _, n := range strings.Fields(in) {
			if ValidNodeName(n) == nil {
				names = append(names, n)
			}
		}
		if len(names) == 0 {
			return
		}
		slices.SortFunc(names, CompareNames)
		names = slices.Compact(names)
		if want := strings.Join(names, " "); sorted(t, Fold(names)) != want {
			t.Fatalf("%s became %s", want, Fold(names))
		}
	})
}
