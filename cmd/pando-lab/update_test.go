package main

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
