package storm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/testkit"
)

// kind has the parameters that equal runs share.
type kind struct {
	nodes  int
	system string
	rate   int64 // of a node's link
	server int64 // of the server's link; 0: the same
}

func (r stormRun) kind() kind {
	k := kind{r.Nodes, r.System, r.NodeRate, r.ServerRate}
	if k.server == k.rate {
		k.server = 0
	}
	return k
}

// links describes the rates of a run's links.
func (r stormRun) links() string {
	text := testkit.Rate(r.NodeRate).String()
	if k := r.kind(); k.server != 0 {
		text += ", the server's " + testkit.Rate(k.server).String()
	}
	return text
}

// kinds returns all kinds: systems in the order of their list, then small numbers of nodes first, then the fastest
// links first.
func (r *report) kinds() (out []kind) {
	for _, x := range r.Runs {
		if k := x.kind(); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	order := names(own())
	for _, k := range out {
		if !slices.Contains(order, k.system) {
			order = append(order, k.system)
		}
	}
	slices.SortStableFunc(out, func(a, b kind) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.system), slices.Index(order, b.system)),
			cmp.Compare(a.nodes, b.nodes),
			cmp.Compare(b.rate, a.rate),
			cmp.Compare(a.server, b.server),
		)
	})
	return out
}

// of returns the runs of a kind, the fastest first.
func (r *report) of(k kind, discarded bool) (out []stormRun) {
	for _, x := range r.Runs {
		if x.kind() == k && (discarded || !x.Discarded) {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b stormRun) int { return cmp.Compare(a.units(), b.units()) })
	return out
}

// typical returns the median run of a kind; false: all runs were discarded. Of an even number it is the slower of the
// two in the middle, so that it is a real run and not a flattering one.
func (r *report) typical(k kind, busy bool) (stormRun, bool) {
	runs := r.of(k, busy)
	if len(runs) == 0 {
		return stormRun{}, false
	}
	return runs[len(runs)/2], true
}

// units returns the duration of the last node's boot, in W/(eta B).
func (r stormRun) units() float64 { return r.Last / r.Unit }

// like returns the median run with the same system, number of nodes and server rate as k, on links of k's rate or the
// nearest rate.
func (r *report) like(k kind, busy bool) (best stormRun, ok bool) {
	far := func(rate int64) float64 { return math.Abs(math.Log(float64(rate+1) / float64(k.rate+1))) }
	for _, other := range r.kinds() {
		same := other.nodes == k.nodes && other.system == k.system && other.server == k.server
		if m, good := r.typical(other, busy); good && same && (!ok || far(other.rate) < far(best.NodeRate)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// Alone returns how long one node takes by itself (t_one), in W/(eta B), and the rate of the link on which that was
// measured. It prefers the rate of the kind. 0: unknown.
func (r *report) Alone(k kind, busy bool) (units float64, rate int64) {
	one, ok := r.like(kind{1, k.system, k.rate, k.server}, busy)
	if !ok {
		return 0, 0
	}
	return one.units(), one.NodeRate
}

// scaledMark marks values that come from a run on links of another rate. A single node on a fast link is slower in
// W/(eta B), because its work and pauses count more, so a storm on slow links may seem faster than one node.
const scaledMark = "~"

// scaledText explains the mark below a table that has it.
func scaledText(rows []bench.Row) string {
	for _, x := range rows {
		if slices.ContainsFunc(x, func(cell string) bool { return strings.HasPrefix(cell, scaledMark) }) {
			return scaledMark + ": one node was measured by itself on a link of another rate only, and as many " +
				"W/(eta B) are taken for this one. On a faster link they may be more, and the storm ratio lower " +
				"than it would be.\n"
		}
	}
	return ""
}

var heads = bench.Row{
	"system",
	"N",
	"B",
	"runs",
	"t_one",
	"t_p50",
	"t_last",
	"W/(eta B)",
	"set",
	"storm ratio",
	"server amplification",
	"with K",
	"peer share",
	"machine",
}

// rows returns the median run of each system and number of nodes. With busy it includes discarded runs, marked.
func (r *report) rows(busy bool) (out []bench.Row) {
	for _, k := range r.kinds() {
		m, ok := r.typical(k, busy)
		all := r.of(k, true)
		if !ok {
			out = append(out, bench.Row{k.system, fmt.Sprint(k.nodes), all[0].links(), fmt.Sprintf("0 of %d", len(all)),
				"discarded: " + all[0].Load.TooBusy()})
			continue
		}
		out = append(out, r.row(m, r.of(k, busy), len(all), busy))
	}
	return out
}

// row returns the line of a kind: its median run m, and the range of the other valid runs.
func (r *report) row(m stormRun, good []stormRun, all int, busy bool) bench.Row {
	name, one, ratio, units := m.System, "-", "-", fmt.Sprintf("%.2f", m.units())
	if m.Discarded {
		name += "*"
	}
	if len(good) > 1 {
		units += fmt.Sprintf(" (%.2f to %.2f)", good[0].units(), good[len(good)-1].units())
	}
	if alone, rate := r.Alone(m.kind(), busy); alone > 0 {
		mark := ""
		if rate != m.NodeRate {
			mark = scaledMark
		}
		one, ratio = fmt.Sprintf("%s%.1f s", mark, alone*m.Unit), fmt.Sprintf("%s%.2f", mark, m.units()/alone)
	}
	kernel := "-"
	if v, ok := withK(r.K, m); ok {
		kernel = fmt.Sprintf("%.1f", v)
	}
	return bench.Row{
		name,
		fmt.Sprint(m.Nodes),
		m.links(),
		fmt.Sprintf("%d of %d", len(good), all),
		one,
		fmt.Sprintf("%.1f s", m.Median),
		fmt.Sprintf(
			"%.1f s",
			m.Last,
		),
		units,
		bench.OrDash(m.Complete, "%.2f", 1/m.Unit),
		ratio,
		fmt.Sprintf("%.2f", m.amplification()),
		kernel,
		m.share(),
		fmt.Sprintf("%.0f %%", m.Load.Busy*100),
	}
}

// table returns the table for the terminal.
func (r *report) table(busy bool) string {
	var out strings.Builder
	rows := r.rows(busy)
	out.WriteString(
		bench.Table(
			append([]bench.Row{heads}, rows...),
		) + scaledText(
			rows,
		) + "\n" + bench.Table(
			append([]bench.Row{costHeads}, r.costRows(busy)...),
		),
	)
	fmt.Fprintf(
		&out,
		"\nW is %.1f MB, a boot reads %.1f MB. %s, %s.\n",
		bench.MB(r.BootSet),
		bench.MB(r.Read),
		r.Machine,
		r.Date.Format(time.DateOnly),
	)
	if busy {
		out.WriteString("* the machine was too busy for this figure to mean anything about the links.\n")
	}
	return out.String()
}
