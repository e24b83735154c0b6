package alone

import (
	"fmt"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
)

// workParts is the number of parts of a boot's work for which waits are counted.
const workParts = 20

// waited returns how long a boot waited for its reads, in seconds, for each part of its work.
func waited(waits []time.Duration, bursts []testbed.Burst) []float64 {
	all := time.Duration(0)
	for _, b := range bursts {
		all += b.Think
	}
	out := make([]float64, workParts)
	worked := time.Duration(0)
	for _, b := range bursts {
		worked += b.Think
		part := min(int(workParts*float64(worked)/float64(max(all, 1))), workParts-1)
		out[part] += testbed.Stall(waits, []testbed.Burst{b}).Seconds()
	}
	return out
}

// waits has a line for each way: how long it waited and when, and the time that is neither waits nor work, in which
// other programs had its processor.
func (r *result) waits() string {
	var b strings.Builder
	for _, w := range r.ways {
		rounds := r.Waited[w.name]
		if len(rounds) == 0 {
			continue
		}
		if b.Len() == 0 {
			fmt.Fprintf(
				&b,
				"\n%-20s %12s %12s %12s %14s\n",
				"waits for reads, s",
				"first 1/20",
				"next 1/20",
				"the rest",
				"not its work",
			)
		}
		var parts [3][]float64
		var other []float64
		for i, round := range rounds {
			sum := [3]float64{}
			for j, x := range round {
				sum[min(j, 2)] += x
			}
			for j := range parts {
				parts[j] = append(parts[j], sum[j])
			}
			other = append(other, r.Seconds[w.name][i]-r.Work-sum[0]-sum[1]-sum[2])
		}
		fmt.Fprintf(
			&b,
			"%-20s %12.2f %12.2f %12.2f %14.2f\n",
			w.name,
			bench.MedianOf(parts[0]),
			bench.MedianOf(parts[1]),
			bench.MedianOf(parts[2]),
			bench.MedianOf(other),
		)
	}
	return b.String()
}
