package storm

import (
	"fmt"

	"pando/internal/bench"
	"pando/internal/testkit"
)

var guestHeads = bench.Row{
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
func (r *report) guestRows() (out []bench.Row) {
	for _, g := range r.Guests {
		power, k := "-", "-"
		if g.System == bench.PandoWay {
			power, k = bench.OrDash(last(g.Booted), "%.0f s", 1), fmt.Sprintf("%.1f MB", bench.MB(g.ServerSent))
		}
		out = append(
			out,
			bench.Row{
				g.System,
				g.count(),
				testkit.Rate(g.Rate).String(),
				bench.OrDash(g.Skew/60, "%.0f min", 1),
				bench.OrDash(last(g.SinceInit), "%.1f s", 1),
				bench.OrDash(
					r.besidePando(g),
					"%.2f",
					1,
				),
				power,
				fmt.Sprintf("%.1f MB", bench.MB(g.rootSent())),
				r.guestUnits(g),
				k,
				fmt.Sprintf("%.0f %%", g.Load.Busy*100),
			},
		)
	}
	return out
}

// guestUnits is what the server sent of the root, in W.
func (r *report) guestUnits(g guestRun) string {
	if g.BootSet == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(g.rootSent())/float64(g.BootSet))
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
		if p.System == bench.PandoWay && p.Rate == g.Rate && p.Guests == g.Guests && p.Skew == g.Skew &&
			len(p.Failed) == 0 &&
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
	if r.System == bench.PandoWay {
		return r.RootSent
	}
	return int64(payload(r.ServerSent, stamped))
}
