package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"pando/internal/testkit"
)

// kind is what runs are alike in.
type kind struct {
	nodes  int
	system string
}

// kinds are all, systems in the order in which they are listed, small numbers of nodes first.
func (r *report) kinds() (out []kind) {
	for _, x := range r.Runs {
		if k := (kind{x.Nodes, x.System}); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	order := names(append(own(), rivals(dnbd3{"-", "-"})...))
	slices.SortStableFunc(out, func(a, b kind) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.system), slices.Index(order, b.system)), cmp.Compare(a.nodes, b.nodes))
	})
	return out
}

// of returns the runs of a kind, quickest first.
func (r *report) of(k kind, discarded bool) (out []stormRun) {
	for _, x := range r.Runs {
		if x.Nodes == k.nodes && x.System == k.system && (discarded || !x.Discarded) {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b stormRun) int { return cmp.Compare(a.units(), b.units()) })
	return out
}

// typical is the median run of a kind; false: all were discarded.
func (r *report) typical(k kind, busy bool) (stormRun, bool) {
	runs := r.of(k, busy)
	if len(runs) == 0 {
		return stormRun{}, false
	}
	return runs[(len(runs)-1)/2], true
}

// units is how long the last node took, in W/(eta B).
func (r stormRun) units() float64 { return r.Last / r.Unit }

// ratio is the storm ratio: how much longer the last of N takes than one alone, each in its own unit. 0: not known.
func (r *report) ratio(m stormRun, busy bool) float64 {
	alone, ok := r.typical(kind{1, m.System}, busy)
	if !ok {
		return 0
	}
	return m.units() / alone.units()
}

// row is a line of the table.
type row []string

var heads = row{"system", "N", "B", "runs", "t_p50", "t_last", "W/(eta B)", "set", "storm ratio", "server/W", "with K", "wire/read", "peers", "stall", "client CPU", "client memory",
	"server CPU", "machine"}

// rows are the median run of each system and number of nodes, and what is modelled. busy: discarded runs, too, with a mark.
func (r *report) rows(busy bool) (out []row) {
	last := ""
	for _, k := range r.kinds() {
		if last != "" && last != k.system {
			out = append(out, r.modelledRows(last)...)
		}
		last = k.system
		m, ok := r.typical(k, busy)
		all := r.of(k, true)
		if !ok {
			out = append(out, row{k.system, fmt.Sprint(k.nodes), testkit.Rate(all[0].NodeRate).String(), fmt.Sprintf("0 of %d", len(all)),
				"discarded: " + all[0].Load.tooBusy()})
			continue
		}
		out = append(out, r.row(m, fmt.Sprintf("%d of %d", len(r.of(k, busy)), len(all)), busy))
	}
	return append(out, r.modelledRows(last)...)
}

func (r *report) row(m stormRun, runs string, busy bool) row {
	name, ratio := m.System, "-"
	if m.Discarded {
		name += "*"
	}
	if v := r.ratio(m, busy); v > 0 {
		ratio = fmt.Sprintf("%.2f", v)
	}
	all := "-"
	if v, ok := r.K.withK(m); ok {
		all = fmt.Sprintf("%.1f", v)
	}
	cpu := m.mean(func(n nodeRun) float64 { return n.Taken.CPU })
	memory := m.most(func(n nodeRun) float64 { return float64(n.Taken.Memory) })
	return row{name, fmt.Sprint(m.Nodes), testkit.Rate(m.NodeRate).String(), runs, fmt.Sprintf("%.1f s", m.Median), fmt.Sprintf("%.1f s", m.Last),
		fmt.Sprintf("%.2f", m.units()), orDash(m.Complete, "%.2f", 1/m.Unit), ratio, fmt.Sprintf("%.2f", m.amplification()), all, fmt.Sprintf("%.2f", m.wire()), m.share(),
		fmt.Sprintf("%.1f s", m.mean(func(n nodeRun) float64 { return n.Stalled })), orDash(cpu, "%.2f s", 1), orDash(memory, "%.0f MB", 1e-6),
		fmt.Sprintf("%.2f s", m.ServerCPU), fmt.Sprintf("%.0f %%", m.Load.Busy*100)}
}

// orDash writes a figure; a client that is part of this program has none.
func orDash(v float64, format string, scale float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v*scale)
}

// modelledRows are what a system would take with more nodes than it was measured with.
func (r *report) modelledRows(system string) (out []row) {
	for _, e := range r.Modelled {
		if e.System == system {
			out = append(out, row{system, fmt.Sprint(e.Nodes), "", "modelled", "", "", fmt.Sprintf("%.2f", e.Units), "", fmt.Sprintf("%.2f", e.Ratio),
				fmt.Sprintf("%.2f", e.Server)})
		}
	}
	return out
}

// table is for the terminal.
func (r *report) table(busy bool) string {
	var out strings.Builder
	out.WriteString(aligned(append([]row{heads}, r.rows(busy)...)))
	fmt.Fprintf(&out, "\nW is %.1f MB, a boot reads %.1f MB. %s, %s.\n", mega(r.BootSet), mega(r.Read), r.Machine, r.Date.Format(time.DateOnly))
	if len(r.Modelled) > 0 {
		fmt.Fprintf(&out, "modelled: %s.\n", modelText)
	}
	if busy {
		out.WriteString("* the machine was too busy for this figure to mean anything about the links.\n")
	}
	return out.String()
}

// aligned is a table for the terminal; its first row is the head.
func aligned(rows []row) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, x := range rows {
		fmt.Fprintln(w, strings.Join(x, "\t")+"\t")
	}
	_ = w.Flush() // a Builder takes everything
	return out.String()
}
