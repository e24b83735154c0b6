package updates

import (
	"slices"
	"testing"

	"pando/internal/image"
)

func TestChangedPackages(t *testing.T) {
	before := []image.Package{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}, {Name: "gone", Version: "1"}}
	after := []image.Package{{Name: "a", Version: "2"}, {Name: "b", Version: "1"}, {Name: "new", Version: "1"}}
	if got := changed(before, after); !slices.Equal(got, []string{"a 1 -> 2"}) {
		t.Errorf("%q", got)
	}
}

// Updates are spread over the days; on the others a file is edited, or a program installed.
func TestPlanDays(t *testing.T) {
	var updates []sourceUpdate
	for _, name := range []string{"a", "b", "c", "d"} {
		updates = append(updates, sourceUpdate{name, []string{name + "1", name + "2"}})
	}
	plan := planDays(updates, 10)
	var which []string
	installs := 0
	for _, d := range plan {
		switch {
		case d.Update:
			which = append(which, d.Packages...)
		case len(d.Packages) == 1:
			installs++
		}
	}
	if len(plan) != 10 || installs != 3 ||
		!slices.Equal(which, []string{"a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"}) {
		t.Errorf("%+v", plan)
	}
	if all := planDays(updates, 3); len(all) != 3 || !all[2].Update {
		t.Errorf("with fewer days than updates: %+v", all)
	}
}
