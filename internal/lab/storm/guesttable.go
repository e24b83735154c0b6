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

// guestRows has a line for each run. It omits the time since power-on for a rival's machines, because they did not load
// kernel and initramfs over the link.
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

// guestUnits returns what the server sent of the root, in units of W.
func (r *report) guestUnits(g guestRun) string {
	if g.BootSet == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(g.rootSent())/float64(g.BootSet))
}

// count returns the number of machines and, if some failed, how many booted.
func (r guestRun) count() string {
	if len(r.Failed) == 0 {
		return fmt.Sprint(r.Guests)
	}
	return fmt.Sprintf("%d, of which **%d booted**", r.Guests, len(r.Booted))
}

// beside returns the run to compare with: Pando's latest run on the same links that did not begin later.
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

// besidePando returns the ratio of the last machine's time since /init to that in Pando's run; 0: there is no such run.
func (r *report) besidePando(g guestRun) float64 {
	p, ok := r.beside(g)
	if !ok {
		return 0
	}
	return last(g.SinceInit) / last(p.SinceInit)
}

// last returns the last of sorted values, 0 if there are none.
func last(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// rootSent returns what the server sent of the root, in bytes. A rival's machines cannot report that, so for them it is
// all that the server sent.
func (r guestRun) rootSent() int64 {
	if r.System == bench.PandoWay {
		return r.RootSent
	}
	return int64(payload(r.ServerSent, stamped))
}
