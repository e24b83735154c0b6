package trace

import "time"

// Ends is when the stages of a boot were over, since its first event. A stage that did not end is not in it.
type Ends map[Stage]time.Duration

// Ends returns when the stages of a timeline ended, up to booted. What the node reported later is no part of its boot.
func (t Timeline) Ends() Ends {
	out := Ends{}
	for _, s := range t.Steps {
		if rank := Rank(s.Stage); rank >= 0 && rank <= Rank(Booted) && !s.Open {
			out[s.Stage] = s.Start + s.Duration
		}
	}
	return out
}

// Total is the whole boot, to its default target; false: it did not get there.
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

// usualFrom is how many boots make a habit.
const usualFrom = 3

// Usual is how long stages take as a rule: what 95 of 100 boots need. A stage that few boots had has no rule.
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

// Parts cuts a boot into one part per stage, in order and without gaps: a part lasts from the end of the stage before
// to the end of its own. So the start of the kernel counts for init, that of the image for booted, and the parts add up
// to the whole boot.
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
