package trace

import "time"

// Ends has the times at which the stages of a boot ended, since its first event. A stage that did not end is missing.
type Ends map[Stage]time.Duration

// Ends returns when the stages of a timeline ended, up to booted. Later reports of the node do not belong to its boot.
func (t Timeline) Ends() Ends {
	out := Ends{}
	for _, s := range t.Steps {
		if rank := Rank(s.Stage); rank >= 0 && rank <= Rank(Booted) && !s.Open {
			out[s.Stage] = s.Start + s.Duration
		}
	}
	return out
}

// Total returns the duration of the whole boot, to its default target; false if the boot did not get there.
func (e Ends) Total() (time.Duration, bool) {
	d, ok := e[Booted]
	return d, ok
}

// Part is one stage's part of a boot.
type Part struct {
	Stage Stage
	Start time.Duration // since the boot began
	Took  time.Duration
}

// usualFrom is how many boots are needed for a usual time.
const usualFrom = 3

// Usual returns how long stages usually take: the 95th percentile. Stages that few boots had are left out.
func Usual(boots []Ends) map[Stage]time.Duration {
	took := map[Stage][]time.Duration{}
	for _, b := range boots {
		for _, p := range b.Parts() {
			took[p.Stage] = append(took[p.Stage], p.Took)
		}
	}
	out := make(map[Stage]time.Duration, len(took))
	for s, d := range took {
		if len(d) >= usualFrom {
			out[s] = Percentile(d, 0.95)
		}
	}
	return out
}

// Parts returns one part per stage, in order and without gaps: a part lasts from the end of the stage before to the end
// of its own. So the kernel's start counts for init, that of the image for booted. The parts add up to the whole boot.
func (e Ends) Parts() []Part {
	var out []Part
	var at time.Duration
	for _, s := range Stages() {
		end, ok := e[s]
		if !ok || s == Shutdown {
			continue
		}
		end = max(end, at) // clocks of server and node may differ by a little
		out = append(out, Part{s, at, end - at})
		at = end
	}
	return out
}
