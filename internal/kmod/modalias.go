package kmod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/image"
)

// Index is the merged content of the initramfs's driver sets.
type Index struct {
	modules map[string]image.Module
	Always  []string
	// aliases is keyed by the bus prefix of the pattern ("pci", "usb", "virtio"), so that a device is compared only
	// with patterns of its bus.
	aliases map[string][]alias
}

type alias struct{ pattern, module string }

// ReadIndex reads the driver sets that the builder wrote (/pando/drivers/*.json), except the set named without.
func ReadIndex(dir, without string) (*Index, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no driver set in %s", dir), err)
	}
	x := &Index{modules: map[string]image.Module{}, aliases: map[string][]alias{}}
	for _, f := range files {
		if filepath.Base(f) == without+".json" {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var set image.DriverSet
		if err := json.Unmarshal(data, &set); err != nil {
			return nil, fmt.Errorf("driver set %s: %w", f, err)
		}
		if set.Format != 1 {
			return nil, fmt.Errorf("driver set %s: format %d, this agent knows 1", f, set.Format)
		}
		x.add(set)
	}
	return x, nil
}

func (x *Index) add(set image.DriverSet) {
	x.Always = append(x.Always, set.Always...)
	for _, m := range set.Modules {
		x.modules[m.Name] = m
		for _, a := range m.Aliases {
			bus, _, _ := strings.Cut(a, ":")
			x.aliases[bus] = append(x.aliases[bus], alias{a, m.Name})
		}
	}
}

// match returns the modules for a device's modalias, or for a name or alias that the kernel requests, sorted.
func (x *Index) match(modalias string) []string {
	bus, _, _ := strings.Cut(modalias, ":")
	var names []string
	for _, a := range x.aliases[bus] {
		if matchPattern(a.pattern, modalias) {
			names = append(names, a.module)
		}
	}
	if n := moduleName(modalias); x.modules[n].Name != "" {
		names = append(names, n)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// order returns the modules to load for the given names, without duplicates and without those that skip rejects. Each
// module comes after the modules that it needs.
func (x *Index) order(names []string, skip func(string) bool) []image.Module {
	var out []image.Module
	seen := map[string]bool{}
	for _, n := range names {
		for _, m := range append(slices.Clone(x.modules[n].Needs), n) {
			mod, ok := x.modules[m]
			if !ok || seen[m] || skip(m) {
				continue
			}
			seen[m] = true
			out = append(out, mod)
		}
	}
	return out
}

// matchPattern works like fnmatch(3) for module aliases: '*', '?' and sets such as [0-9]. A malformed pattern matches
// nothing.
func matchPattern(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n := matchOne(pattern[p:], s[i]); n > 0 {
			p += n
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne returns how many bytes of the pattern match the byte c, 0 if it does not match.
func matchOne(pattern string, c byte) int {
	if pattern == "" {
		return 0
	}
	switch pattern[0] {
	case '?':
		return 1
	case '[':
		return matchSet(pattern, c)
	case c:
		return 1
	}
	return 0
}

// matchSet is matchOne for sets: "[a-c9]" and "[!a-c]".
func matchSet(pattern string, c byte) int {
	end := strings.IndexByte(pattern[1:], ']')
	if end < 1 {
		return 0
	}
	set, negate := pattern[1:end+1], false
	if set[0] == '!' || set[0] == '^' {
		set, negate = set[1:], true
	}
	in := false
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			in = in || set[i] <= c && c <= set[i+2]
			i += 2
			continue
		}
		in = in || set[i] == c
	}
	if in == negate {
		return 0
	}
	return end + 2
}
