package trace

import "time"

// BootStorm is a run of boots that began within a short time of one another: the indexes of its first and last boot.
type BootStorm struct{ First, Last int }

// BootStorms finds boot storms in sorted start times: at least `least` boots, each at most gap after the one before.
func BootStorms(starts []time.Time, gap time.Duration, least int) []BootStorm {
	var out []BootStorm
	first := 0
	for i := range starts {
		if i+1 < len(starts) && starts[i+1].Sub(starts[i]) <= gap {
			continue
		}
		if i-first+1 >= least {
			out = append(out, BootStorm{first, i})
		}
		first = i + 1
	}
	return out
}
