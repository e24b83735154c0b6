package main

import (
	"fmt"
	"slices"
	"strings"
)

// release is of what `make build` made, this program and the Pando beside it; the Makefile sets it.
var release = unknownRelease

const unknownRelease = "build unknown"

// unrecorded stands for the release of a run that was made when labs did not note it.
const unrecorded = "not recorded"

// releaseOf is for people.
func releaseOf(recorded string) string {
	if recorded == "" {
		return unrecorded
	}
	return "`" + recorded + "`"
}

// storms are all runs of daemons, of whatever kind.
func (r *report) storms() []stormRun { return slices.Concat(r.Runs, r.Faults, r.Pairs, r.WithK) }

// releasesText says which releases of Pando were measured, and how many runs each made where they are several.
func (r *report) releasesText() string {
	var all []string
	count := map[string]int{}
	note := func(recorded string) {
		name := releaseOf(recorded)
		if count[name]++; count[name] == 1 {
			all = append(all, name)
		}
	}
	for _, x := range r.storms() {
		note(x.Release)
	}
	for _, g := range r.Guests {
		note(g.Release)
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("Release of Pando: %s.", all[0])
	}
	for i, name := range all {
		all[i] = fmt.Sprintf("%s (%s)", name, runsText(count[name]))
	}
	return fmt.Sprintf("Releases of Pando: %s.", strings.Join(all, ", "))
}

func runsText(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}
