package trace

import (
	"math"
	"slices"
	"time"
)

// Sure is the largest probability of chance at which a change counts as real. It holds for all stages of one comparison
// together (Holm's correction), so that luck in one of fifteen stages is not reported.
const Sure = 0.01

// The smallest change that is reported. With many boots the test finds changes of milliseconds.
const (
	LeastShare = 0.05
	LeastTime  = 100 * time.Millisecond
)

// Change is the difference of one part of a boot between two sets of boots, such as those of two versions.
type Change struct {
	Stage  Stage // "": the whole boot
	Before Figures
	After  Figures
	Shift  time.Duration // how much longer the part takes afterwards: median of all differences (Hodges and Lehmann)
	P      float64       // two-sided, of the rank-sum test of Mann and Whitney; 1 where there is nothing to compare
	Real   bool          // more than noise, and not too small
}

// Compare returns how boots differ from earlier ones: the whole boot first, then each stage's part, in the order of a
// boot. It leaves out boots that did not reach booted.
func Compare(before, after []Ends) []Change {
	was, is := partsOf(before), partsOf(after)
	out := []Change{newChange("", was[""], is[""])}
	for _, s := range Stages() {
		if len(was[s]) > 0 || len(is[s]) > 0 {
			out = append(out, newChange(s, was[s], is[s]))
		}
	}
	judgeChanges(out)
	return out
}

// partsOf returns the durations of many boots by stage; "" has the whole boots.
func partsOf(boots []Ends) map[Stage][]time.Duration {
	out := map[Stage][]time.Duration{}
	for _, b := range boots {
		total, ok := b.Total()
		if !ok {
			continue
		}
		out[""] = append(out[""], total)
		for _, p := range b.Parts() {
			out[p.Stage] = append(out[p.Stage], p.Took)
		}
	}
	return out
}

func newChange(s Stage, before, after []time.Duration) Change {
	return Change{
		Stage:  s,
		Before: NewFigures(s, before),
		After:  NewFigures(s, after),
		Shift:  shift(before, after),
		P:      rankSum(before, after),
	}
}

// judgeChanges marks the changes that are real. The whole boot is tested alone; the stages share the probability of a
// false report.
func judgeChanges(all []Change) {
	decide := func(c *Change, level float64) bool {
		c.Real = c.P < level && abs(c.Shift) >= max(LeastTime, time.Duration(LeastShare*float64(c.Before.P50)))
		return c.P < level
	}
	decide(&all[0], Sure)
	stages := make([]*Change, 0, len(all))
	for i := range all[1:] {
		stages = append(stages, &all[1+i])
	}
	slices.SortStableFunc(stages, func(a, b *Change) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	for i, c := range stages {
		if !decide(c, Sure/float64(len(stages)-i)) {
			return // the next stages have larger p-values, so none of them is real
		}
	}
}

// Culprit returns the stage with the largest shift among those that changed together with the whole boot, or "". The
// whole boot's change is already certain, so each stage is tested alone.
func Culprit(all []Change) Stage {
	if len(all) == 0 || !all[0].Real {
		return ""
	}
	var most Change
	for _, c := range all[1:] {
		if c.P < Sure && (c.Shift > 0) == (all[0].Shift > 0) && abs(c.Shift) > abs(most.Shift) {
			most = c
		}
	}
	return most.Stage
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// mostPairs bounds the work of shift. Beyond it, evenly chosen values of the sorted ones represent all.
const mostPairs = 1 << 20

// shift returns the median of the differences between each value of after and each of before.
func shift(before, after []time.Duration) time.Duration {
	if len(before) == 0 || len(after) == 0 {
		return 0
	}
	root := int(math.Sqrt(mostPairs))
	a, b := thin(before, root), thin(after, root)
	all := make([]time.Duration, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, y-x)
		}
	}
	return Percentile(all, 0.5)
}

// thin returns at most n values, evenly chosen from the sorted ones.
func thin(values []time.Duration, n int) []time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) <= n {
		return sorted
	}
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = sorted[i*len(sorted)/n]
	}
	return out
}
