package main

import "slices"

// release is of what `make build` made, this program and the Pando beside it; the Makefile sets it.
var release = "build unknown"

// storms are all runs of daemons, of whatever kind.
func (r *report) storms() []stormRun { return slices.Concat(r.Runs, r.Faults, r.Pairs, r.WithK) }
