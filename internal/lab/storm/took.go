package storm

import (
	"fmt"

	"pando/internal/bench"
)

var costHeads = bench.Row{
	"system",
	"N",
	"B",
	"stall time",
	"wait p99",
	"wire/read",
	"hit rate",
	"not read",
	"daemon CPU",
	"daemon memory",
	"server CPU",
	"server memory",
}

// costRows returns what the median run of each system and number of nodes used.
func (r *report) costRows(busy bool) (out []bench.Row) {
	for _, k := range r.kinds() {
		if m, ok := r.typical(k, busy); ok {
			out = append(out, m.costRow())
		}
	}
	return out
}

// stalled returns the mean time that a boot waited. A system that fetches the whole image first waits until its root is
// readable.
func (r stormRun) stalled() float64 {
	return r.mean(func(n nodeRun) float64 { return n.Attached + n.Stalled })
}

func (r stormRun) costRow() bench.Row {
	each := func(of func(bench.Usage) int64) float64 {
		return r.mean(func(n nodeRun) float64 { return float64(of(n.Taken)) })
	}
	hits, misses := each(
		func(t bench.Usage) int64 { return t.Hits },
	), each(
		func(t bench.Usage) int64 { return t.Misses },
	)
	rate, wasted := "-", "-"
	if hits > 0 {
		rate = fmt.Sprintf("%.1f %%", 100*hits/(hits+misses))
		wasted = fmt.Sprintf("%.2f MB", each(func(t bench.Usage) int64 { return t.Wasted })/1e6)
	}
	return bench.Row{r.System, fmt.Sprint(r.Nodes), r.links(), fmt.Sprintf("%.1f s", r.stalled()),
		fmt.Sprintf(
			"%.0f ms",
			1e3*r.most(func(n nodeRun) float64 { return n.Wait99 }),
		), fmt.Sprintf("%.2f", r.wire()), rate, wasted,
		bench.OrDash(
			r.mean(func(n nodeRun) float64 { return n.Taken.CPU }),
			"%.2f s",
			1,
		), bench.OrDash(r.most(func(n nodeRun) float64 { return float64(n.Taken.Memory) }), "%.0f MB", 1e-6),
		fmt.Sprintf("%.2f s", r.ServerCPU), fmt.Sprintf("%.0f MB", bench.MB(r.ServerMemory))}
}
