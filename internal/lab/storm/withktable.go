package storm

import (
	"fmt"
	"time"

	"pando/internal/bench"
	"pando/internal/sim"
)

var withKHeads = bench.Row{
	"system",
	"N",
	"B",
	"runs",
	"K",
	"K from",
	"of it from nodes",
	"wrong nodes, refused",
	"at a time",
	"first has K",
	"last has K",
	"first booted",
	"half booted",
	"last booted",
	"last to one node",
	"last to the bound",
	"simulated",
	"last K, lab to that",
	"half booted, lab to that",
	"last booted, lab to that",
	"server sent, in K + W",
	"machine",
}

// withKRows returns a line for the median run of each kind whose nodes load K first, compared with the simulation. With
// busy it includes discarded runs.
func (r *report) withKRows(busy bool) (out []bench.Row) {
	with := &report{Runs: r.WithK}
	for _, k := range with.kinds() {
		m, ok := with.typical(k, busy)
		all := with.of(k, true)
		if !ok {
			out = append(
				out,
				bench.Row{
					k.system,
					fmt.Sprint(k.nodes),
					all[0].links(),
					fmt.Sprintf("0 of %d", len(all)),
					"discarded: " + all[0].Load.TooBusy(),
				},
			)
			continue
		}
		one := "-"
		if x, ok := with.typical(kind{1, k.system, k.rate, k.server}, busy); ok && x.K.From == m.K.From {
			one = fmt.Sprintf("%.2f", m.Last/x.Last)
		}
		out = append(out, m.withKRow(one, fmt.Sprintf("%d of %d", len(with.of(k, busy)), len(all))))
	}
	return out
}

// withKRow returns the line of a run.
func (r stormRun) withKRow(one, runs string) bench.Row {
	bound := r.boundK()
	simulated, last, half, booted := "-", "-", "-", "-"
	if s, err := sim.Run(r.labStorm(0).Config()); err == nil {
		simulated = fmt.Sprintf("%.2f", s.Last.Seconds()/bound)
		last, half, booted = against(r.K.Last, s.LastK), against(r.Median, s.Median), against(r.Last, s.Last)
	}
	return bench.Row{
		r.System,
		fmt.Sprint(r.Nodes),
		r.links(),
		runs,
		fmt.Sprintf("%.1f MB", bench.MB(r.K.Bytes)),
		r.K.From,
		fmt.Sprintf("%.0f %%", 100*float64(r.K.Peer)/float64(int64(r.Nodes)*r.K.Bytes)),
		fmt.Sprintf("%d, %d", r.K.Wrong, r.K.Refused),
		fmt.Sprint(r.K.Slots),
		fmt.Sprintf("%.1f s", r.K.First),
		fmt.Sprintf(
			"%.1f s",
			r.K.Last,
		),
		fmt.Sprintf("%.1f s", r.First),
		fmt.Sprintf("%.1f s", r.Median),
		fmt.Sprintf("%.1f s", r.Last),
		one,
		fmt.Sprintf("%.2f", r.Last/bound),
		simulated,
		last,
		half,
		booted,
		fmt.Sprintf(
			"%.2f",
			payload(r.ServerSent, r.Segment)/float64(r.K.Bytes+r.BootSet),
		),
		fmt.Sprintf("%.0f %%", r.Load.Busy*100),
	}
}

// against returns the ratio of a measured time to a simulated one.
func against(lab float64, simulated time.Duration) string {
	return fmt.Sprintf("%.2f", lab/simulated.Seconds())
}

// withK returns what the server sends per node including K, in units of W; false if K is unknown.
func withK(k *bench.KernelSize, r stormRun) (float64, bool) {
	if k == nil || r.BootSet == 0 {
		return 0, false
	}
	return r.amplification() + float64(r.Nodes)*float64(k.Known)/float64(r.BootSet), true
}
