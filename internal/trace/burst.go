package trace

import "time"

// Burst is a run of boots that began close to one another, as indexes of its first and last one.
type Burst struct{ First, Last int }

// Bursts finds boot storms in start times, which are in order: at least so many boots, none of them later than gap
// after the one before.
func Bursts(starts []time.Time, gap time.Duration, least int) []Burst {
	var out []Burst
	first := 0
	for i := range starts {
		if i+1 < len(starts) && starts[i+1].Sub(starts[i]) <= gap {
			continue
		}
		if i-first+1 >= least {
			out = append(out, Burst{first, i})
		}
		first = i + 1
	}
	return out
}
