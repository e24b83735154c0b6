package fleet

import (
	"slices"
	"strings"
	"testing"
)

// optiplex is the hardware that a PC with a graphics card reports.
var optiplex = Hardware{Vendor: "Dell Inc.", Product: "OptiPlex 7090", Architecture: "amd64", CPU: "GenuineIntel",
	PCI: []string{"10de:1c82:0300", "8086:15fb:0200"}}

func TestMatchCovers(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    Match
		want bool
	}{
		{"nothing is asked", Match{}, false},
		{"the vendor", Match{Vendor: []string{"dell inc."}}, true},
		{"a part of the vendor without a star", Match{Vendor: []string{"dell"}}, false},
		{"a pattern", Match{Vendor: []string{"Dell*"}, Product: []string{"*plex 7*"}}, true},
		{"one of two", Match{Product: []string{"Latitude*", "OptiPlex*"}}, true},
		{"all fields count", Match{Vendor: []string{"Dell*"}, Product: []string{"Latitude*"}}, false},
		{"another architecture", Match{Vendor: []string{"Dell*"}, Architecture: []string{"arm64"}}, false},
		{"the CPU", Match{CPU: []string{"GenuineIntel"}}, true},
		{"a PCI vendor", Match{PCI: []string{"10DE"}}, true},
		{"a PCI device", Match{PCI: []string{"8086:15fb"}}, true},
		{"vendor of one device, number of another", Match{PCI: []string{"10de:15fb"}}, false},
		{"a graphics card of a vendor", Match{PCI: []string{"10de:*:03*"}}, true},
		{"a graphics card of another vendor", Match{PCI: []string{"8086:*:03*"}}, false},
		{"any graphics card", Match{PCI: []string{"*:*:03*"}}, true},
		{"a part of a number", Match{PCI: []string{"10d"}}, false},
	} {
		if got := tt.m.Covers(optiplex); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if tt.m.Covers(Hardware{}) {
			t.Errorf("%s: fits hardware of which nothing is known", tt.name)
		}
	}
	if (Match{Vendor: []string{"*"}}).Covers(Hardware{Product: "x"}) {
		t.Error("a vendor that is not known fits *")
	}
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*a", "a", false},
		{"a*b*c", "aXbXc", true}, {"a*b*c", "aXcXb", false}, {"*ab*ab", "ab", false}, {"*ab*ab", "abab", true},
		{"**", "x", true},
	} {
		if got := fits(tt.pattern, tt.s); got != tt.want {
			t.Errorf("fits(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

func TestClassesOf(t *testing.T) {
	all := []Class{
		{Name: "quirk10", Match: Match{CPU: []string{"GenuineIntel"}}},
		{Name: "arm", Match: Match{Architecture: []string{"arm64"}}},
		{Name: "quirk9", Match: Match{Vendor: []string{"Dell*"}}},
	}
	var names []string
	for _, c := range ClassesOf(optiplex, all) {
		names = append(names, c.Name)
	}
	if want := []string{"quirk9", "quirk10"}; !slices.Equal(names, want) {
		t.Errorf("classes %v, want %v", names, want)
	}
}

func TestClassValidate(t *testing.T) {
	good := Class{
		Name:       "nvidia",
		Match:      Match{PCI: []string{"10de:*:03*", "10de:1c82", "*"}},
		KernelArgs: []string{"nomodeset"},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		c    Class
		want string
	}{
		{Class{Name: "Nvidia", Match: good.Match}, "class name"},
		{Class{Name: "any"}, "nothing says which hardware it is"},
		{Class{Name: "x", Match: Match{PCI: []string{"10d"}}}, "four hex digits"},
		{Class{Name: "x", Match: Match{PCI: []string{"10de:1c82:0300:1"}}}, "vendor:device"},
		{Class{Name: "x", Match: Match{PCI: []string{"nvidia"}}}, "PCI device"},
		{Class{Name: "x", Match: Match{Vendor: []string{""}}}, "printable"},
		{Class{Name: "x", Match: Match{Vendor: []string{"a\nb"}}}, "printable"},
		{Class{Name: "x", Match: Match{Vendor: make([]string, 65)}}, "at most 64"},
		{Class{Name: "x", Match: good.Match, KernelArgs: []string{"a b"}}, "kernel argument"},
	} {
		if err := tt.c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.c, err, tt.want)
		}
	}
}

func TestHardwareWith(t *testing.T) {
	got := optiplex.With(Hardware{Product: "OptiPlex 7000", PCI: []string{"8086:1533"}})
	if got.Product != "OptiPlex 7000" || got.Vendor != "Dell Inc." || len(got.PCI) != 3 || len(optiplex.PCI) != 2 {
		t.Errorf("%+v", got)
	}
}
