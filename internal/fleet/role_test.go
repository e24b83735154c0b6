package fleet

import "testing"

func TestRoles(t *testing.T) {
	for _, x := range []struct {
		have, need Role
		may        bool
	}{
		{Viewer, Viewer, true}, {Viewer, Operator, false}, {Operator, Viewer, true}, {Operator, Admin, false},
		{Admin, Admin, true},
		{"", Viewer, false}, {Admin, "", false}, {"root", Viewer, false},
	} {
		if got := x.have.May(x.need); got != x.may {
			t.Errorf("%q may what needs %q: %v", x.have, x.need, got)
		}
	}
	if _, err := ParseRole("root"); err == nil {
		t.Error("a role that there is not was taken")
	}
}

func TestValidPerson(t *testing.T) {
	for name, ok := range map[string]bool{"desk": true, "room.2": true, "desk@example.org": true, "": false,
		".x": false, "a b": false,
		"a\nb": false, "a/b": false, "ä": false} {
		if err := ValidPerson(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
