package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Class is a named kind of hardware. Each boot matches the node's hardware against the classes again; a node may match
// several, or none.
type Class struct {
	Name       string   `json:"name"`
	Match      Match    `json:"match"`
	KernelArgs []string `json:"kernel_args,omitempty"` // appended after the image's and the group's, before the node's
}

// Match says which hardware belongs to a class: all fields that are not empty must match. A field is a list of patterns
// of which one must match; "*" stands for any characters, and case is ignored.
type Match struct {
	Vendor       []string `json:"vendor,omitempty"`
	Product      []string `json:"product,omitempty"`
	CPU          []string `json:"cpu,omitempty"`
	Architecture []string `json:"architecture,omitempty"`
	// "vendor", "vendor:device" or "vendor:device:class": "10de:*:03*" is a graphics card of 10de
	PCI []string `json:"pci,omitempty"`
}

// field is one list of patterns and the values to match.
type field struct {
	name     string
	patterns []string
	values   []string
	fits     func(pattern, value string) bool
}

func (m Match) fields(h Hardware) []field {
	return []field{
		{"vendor", m.Vendor, []string{h.Vendor}, fits},
		{"product", m.Product, []string{h.Product}, fits},
		{"CPU", m.CPU, []string{h.CPU}, fits},
		{"architecture", m.Architecture, []string{h.Architecture}, fits},
		{"PCI", m.PCI, h.PCI, fitsDevice},
	}
}

// Covers reports whether the hardware belongs to the class. An unknown value matches no pattern.
func (m Match) Covers(h Hardware) bool { return len(m.Why(h)) > 0 }

// Why returns, for each field that matches, the value and its pattern: "product Wyse 5070 Thin Client fits Wyse*". It
// is empty for hardware outside the class.
func (m Match) Why(h Hardware) []string {
	var out []string
	for _, f := range m.fields(h) {
		if len(f.patterns) == 0 {
			continue
		}
		value, pattern, ok := f.first()
		if !ok {
			return nil
		}
		why := f.name + " " + value
		if !strings.EqualFold(pattern, value) {
			why += " fits " + pattern
		}
		out = append(out, why)
	}
	return out
}

// first returns the first value that matches, and the pattern that it matches.
func (f field) first() (value, pattern string, ok bool) {
	for _, v := range f.values {
		for _, p := range f.patterns {
			if v != "" && f.fits(p, v) {
				return v, p, true
			}
		}
	}
	return "", "", false
}

// ClassesOf returns the classes that hardware belongs to, in natural order of their names.
func ClassesOf(h Hardware, all []Class) []Class {
	var out []Class
	for _, c := range all {
		if c.Match.Covers(h) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Class) int { return CompareNames(a.Name, b.Name) })
	return out
}

// Like reports whether a name matches a pattern, in which "*" stands for any characters.
func Like(pattern, name string) bool { return fits(pattern, name) }

// fits reports whether s matches a pattern; case is ignored.
func fits(pattern, s string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	s, begins := strings.CutPrefix(strings.ToLower(s), parts[0])
	if !begins || len(parts) == 1 {
		return begins && s == ""
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		_, after, found := strings.Cut(s, p)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, parts[last])
}

// fitsDevice compares a device with a pattern, part by part; parts that the pattern leaves out may be anything.
func fitsDevice(pattern, device string) bool {
	parts := strings.Split(device, ":")
	for i, p := range strings.Split(pattern, ":") {
		if i >= len(parts) || !fits(p, parts[i]) {
			return false
		}
	}
	return true
}

// Bounds of a match.
const (
	maxPatterns = 64
	maxPattern  = 128
)

// Validate returns an error for an invalid field of a class.
func (c Class) Validate() error {
	if err := ValidName("class", c.Name); err != nil {
		return err
	}
	some := false
	for _, f := range c.Match.fields(Hardware{}) {
		some = some || len(f.patterns) > 0
		if err := validPatterns(f); err != nil {
			return fmt.Errorf("class %s: %w", c.Name, err)
		}
	}
	if !some {
		return fmt.Errorf(
			"class %s: nothing says which hardware it is: give a vendor, product, CPU, architecture or PCI device",
			c.Name,
		)
	}
	if err := ValidKernelArgs(c.KernelArgs); err != nil {
		return fmt.Errorf("class %s: %w", c.Name, err)
	}
	return nil
}

func validPatterns(f field) error {
	if len(f.patterns) > maxPatterns {
		return fmt.Errorf("%d patterns of %s: use at most %d", len(f.patterns), f.name, maxPatterns)
	}
	for _, p := range f.patterns {
		if p == "" || len(p) > maxPattern || !printable(p) || strings.TrimSpace(p) != p {
			return fmt.Errorf("%s %q: use 1 to %d printable characters", f.name, p, maxPattern)
		}
		if f.name == "PCI" && !isDevicePattern(p) {
			return fmt.Errorf(
				"PCI device %q: use vendor, vendor:device or vendor:device:class, four hex digits each, or * for "+
					"any of them: 10de:*:03*",
				p,
			)
		}
	}
	return nil
}

func isDevicePattern(s string) bool {
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return false
	}
	for _, p := range parts {
		digits := strings.ReplaceAll(p, "*", "")
		if strings.Trim(strings.ToLower(digits), "0123456789abcdef") != "" || len(digits) != 4 && p == digits ||
			len(digits) > 4 {
			return false
		}
	}
	return true
}
