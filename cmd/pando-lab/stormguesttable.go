package main

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/testkit"
)

// guestText goes before the table of guests.
const guestText = "Whole machines, switched on at once. They are emulated, and no run is discarded for that: " +
	"their processors are the bottleneck, the run without a limit of the link is the " +
	"control, and where that is not faster the run says nothing about the network. Of rivals it is the drivers of " +
	"the kernel that are measured here, which the lab cannot use otherwise. " +
	"Their machines get kernel and initramfs from the emulator; Pando's load them over the link before /init " +
	"runs, which is in the time since power-on and in what was sent with K. "

// guestSetText says what W is of the machines, which end when they have booted.
func (r *report) guestSetText(alone []*aloneResult) string {
	var all []int64
	for _, g := range r.Guests {
		all = append(all, r.guestSet(g, alone))
	}
	slices.Sort(all)
	var words []string
	for _, w := range slices.Compact(all) {
		if w == 0 {
			words = append(words, "not known of some")
			continue
		}
		words = append(words, fmt.Sprintf("%.1f MB", mega(w)))
	}
	return "W is that of the boot pack they had, until they have booted: " + strings.Join(words, ", ") + "."
}

var guestHeads = row{
	"system",
	"guests",
	"links",
	"clocks wrong by",
	"last booted, since /init",
	"to Pando",
	"last booted, since power-on",
	"server sent, of the root",
	"in W",
	"with K",
	"machine",
}

// guestRows has a line for each run. How long a rival's machines took since they were switched on is left out: they
// did not load kernel and initramfs over the link.
func (r *report) guestRows(alone ...*aloneResult) (out []row) {
	for _, g := range r.Guests {
		power, k := "-", "-"
		if g.System == pandoWay {
			power, k = orDash(last(g.Booted), "%.0f s", 1), fmt.Sprintf("%.1f MB", mega(g.ServerSent))
		}
		out = append(
			out,
			row{
				g.System,
				g.count(),
				testkit.Rate(g.Rate).String(),
				orDash(g.Skew/60, "%.0f min", 1),
				orDash(last(g.SinceInit), "%.1f s", 1),
				orDash(
					r.besidePando(g),
					"%.2f",
					1,
				),
				power,
				fmt.Sprintf("%.1f MB", mega(g.rootSent())),
				r.guestUnits(g, alone),
				k,
				fmt.Sprintf("%.0f %%", g.Load.Busy*100),
			},
		)
	}
	return out
}

// guestSet is W of a run of emulated machines, in bytes: until they have booted, where they end, even if the storms
// of the image go on until a mark. Where that was not noted, one machine alone has it. 0: it is not known.
func (r *report) guestSet(g guestRun, alone []*aloneResult) int64 {
	switch {
	case g.BootSet > 0:
		return g.BootSet
	case r.Until == "":
		return r.BootSet
	case len(alone) > 0 && alone[0].Version == r.Version:
		return alone[0].BootSet
	}
	return 0
}

// guestUnits is what the server sent of the root, in W.
func (r *report) guestUnits(g guestRun, alone []*aloneResult) string {
	w := r.guestSet(g, alone)
	if w == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(g.rootSent())/float64(w))
}

// count is how many machines there were, and how many of them booted if not all did.
func (r guestRun) count() string {
	if len(r.Failed) == 0 {
		return fmt.Sprint(r.Guests)
	}
	return fmt.Sprintf("%d, of which **%d booted**", r.Guests, len(r.Booted))
}

// beside is what a run is compared with: Pando's on the same links, the latest such run before it.
func (r *report) beside(g guestRun) (out guestRun, ok bool) {
	for _, p := range r.Guests {
		if p.System == pandoWay && p.Rate == g.Rate && p.Guests == g.Guests && p.Skew == g.Skew && len(p.Failed) == 0 &&
			!p.Began.After(g.Began) {
			out, ok = p, true
		}
	}
	return out, ok
}

// besidePando is how long the last machine of a run took since /init, to Pando's; 0: there is none.
func (r *report) besidePando(g guestRun) float64 {
	p, ok := r.beside(g)
	if !ok {
		return 0
	}
	return last(g.SinceInit) / last(p.SinceInit)
}

// last of sorted values; 0 of none.
func last(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// rootSent is what the server sent of the root, in bytes. Of a rival's machines, which cannot tell, it is all that
// the server sent.
func (r guestRun) rootSent() int64 {
	if r.System == pandoWay {
		return r.RootSent
	}
	return int64(payload(r.ServerSent, stamped))
}
