package trace

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// rankSum returns the two-sided p-value of the Mann-Whitney rank-sum test, 1 if a sample is empty. The test assumes no
// distribution, because boot times have a long tail. Small samples without ties are counted exactly, others use the
// normal approximation with tie correction.
func rankSum(a, b []time.Duration) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	u, ties := uStatistic(a, b)
	n, m := len(a), len(b)
	if ties == 0 && n <= exactMost && m <= exactMost {
		return exactP(u, n, m)
	}
	return normalP(u, n, m, ties)
}

// exactMost is the size of the largest sample that is counted exactly: float64 represents 40 choose 20 exactly.
const exactMost = 20

// uStatistic returns the number of pairs in which the value of b is larger; an equal pair counts half. ties is the sum
// of t^3-t over groups of t equal values.
func uStatistic(a, b []time.Duration) (u, ties float64) {
	type value struct {
		d     time.Duration
		first bool
	}
	all := make([]value, 0, len(a)+len(b))
	for _, d := range a {
		all = append(all, value{d, true})
	}
	for _, d := range b {
		all = append(all, value{d, false})
	}
	slices.SortFunc(all, func(x, y value) int { return cmp.Compare(x.d, y.d) })
	below := 0.0 // values of a that are smaller
	for i := 0; i < len(all); {
		j, ours, theirs := i, 0.0, 0.0
		for ; j < len(all) && all[j].d == all[i].d; j++ {
			if all[j].first {
				ours++
			} else {
				theirs++
			}
		}
		u += theirs * (below + ours/2)
		below += ours
		t := ours + theirs
		ties += t*t*t - t
		i = j
	}
	return u, ties
}

// exactP returns the share of all orders of n and m values in which U is at least as far from its middle as u.
func exactP(u float64, n, m int) float64 {
	// ways[j][k]: orders of i values of one and j of the other sample with U = k.
	ways := make([][]float64, m+1)
	for j := range ways {
		ways[j] = make([]float64, n*m+1)
		ways[j][0] = 1
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			// The largest value is of the second sample and has i below it, or it is of the first one.
			for k := i; k <= i*j; k++ {
				ways[j][k] += ways[j-1][k-i]
			}
		}
	}
	middle, all, far := float64(n*m)/2, 0.0, 0.0
	for k, w := range ways[m] {
		all += w
		if math.Abs(float64(k)-middle) >= math.Abs(u-middle) {
			far += w
		}
	}
	return far / all
}

func normalP(u float64, n, m int, ties float64) float64 {
	a, b := float64(n), float64(m)
	all := a + b
	variance := a * b / 12 * (all + 1 - ties/(all*(all-1)))
	if variance <= 0 { // all values are equal
		return 1
	}
	z := (math.Abs(u-a*b/2) - 0.5) / math.Sqrt(variance) // U has whole steps
	return math.Min(1, math.Erfc(math.Max(0, z)/math.Sqrt2))
}
