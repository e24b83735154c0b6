package trace

import (
	"math"
	"slices"
	"time"
)

// Percentile is the nearest-rank percentile of values: the smallest value that at least the share p (0 to 1) of
// them do not exceed. It is 0 for no values. values is not changed.
func Percentile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Figures say how long something took in many boots.
type Figures struct {
	Stage              Stage // "" for the whole boot
	Count              int   // boots in which it ended
	P50, P90, P95, P99 time.Duration
	Max                time.Duration
}

// Summarize returns how long the stages took in many boots, in the order of a boot. It leaves out stages that ended in
// no boot.
func Summarize(boots []Timeline) []Figures {
	took := make(map[Stage][]time.Duration)
	for _, b := range boots {
		for _, s := range b.Steps {
			if !s.Open {
				took[s.Stage] = append(took[s.Stage], s.Duration)
			}
		}
	}
	var out []Figures
	for _, s := range Stages() {
		if d := took[s]; len(d) > 0 {
			out = append(out, NewFigures(s, d))
		}
	}
	return out
}

// NewFigures returns the Figures of durations.
func NewFigures(s Stage, d []time.Duration) Figures {
	return Figures{
		Stage: s,
		Count: len(d),
		P50:   Percentile(d, 0.5),
		P90:   Percentile(d, 0.9),
		P95:   Percentile(d, 0.95),
		P99:   Percentile(d, 0.99),
		Max:   Percentile(d, 1),
	}
}
