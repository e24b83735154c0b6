package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Gap is a time in a boot without a running stage, with what is known of it.
type Gap struct {
	Start, Took time.Duration
	Before      Stage // the stage that came next
	Text        string
}

// Bounds of gaps.
const (
	gapLeast = 3 * time.Second // shorter gaps are not shown
	gapUnits = 3               // units that the text of a gap names
)

// gapTexts say what usually happens before a stage begins.
var gapTexts = map[Stage]string{
	BootFile:  "the firmware has its address and asks for a boot file",
	Script:    "the boot loader starts, brings its network up and asks for its script",
	Kernel:    "the boot loader has its script and asks for the kernel",
	Initramfs: "the boot loader has the kernel and asks for the initramfs",
	Init:      "the kernel starts and unpacks its initramfs",
}

// Gaps returns the times up to booted without a running stage, and what ran in them: units of systemd (spans on the
// timeline), what the node reported, or what usually happens there.
func (t Timeline) Gaps(units []Span, events []Event) []Gap {
	kernel, clock := KernelStart(events)
	var out []Gap
	var end time.Duration
	for _, s := range t.Steps {
		rank := Rank(s.Stage)
		if rank < 0 || rank > Rank(Booted) {
			continue
		}
		next := s.Start
		if s.Stage == Booted { // booted has no begin event: a failure before it does not count as one
			next += s.Duration
		}
		if took := next - end; took >= gapLeast && end > 0 {
			g := Gap{Start: end, Took: took, Before: s.Stage, Text: gapTexts[s.Stage]}
			switch {
			case s.Stage == Init && clock && kernel > g.Start && kernel < s.Start:
				g.Text = fmt.Sprintf("the boot loader starts the kernel (%s), which unpacks its initramfs (%s)",
					tenths(kernel-g.Start), tenths(s.Start-kernel))
			case rank > Rank(SwitchRoot) && units != nil:
				g.Text = unitsIn(g, units)
			case g.Text == "":
				g.Text = "on the way to " + string(s.Stage)
			}
			g.Text = strings.Join(append([]string{g.Text}, reportedIn(g, t.Started, events)...), "; ")
			out = append(out, g)
		}
		end = max(end, s.Start+s.Duration)
	}
	return out
}

// tenths returns a time to a tenth of a second.
func tenths(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// unitsIn names the units that took most of a gap, and the longest part of the gap in which no unit was starting.
func unitsIn(g Gap, units []Span) string {
	type part struct {
		name       string
		start, end time.Duration
	}
	var in []part
	for _, u := range units {
		p := part{u.Name, max(u.Start, g.Start), min(u.Start+u.Took, g.Start+g.Took)}
		if p.end > p.start {
			in = append(in, p)
		}
	}
	slices.SortStableFunc(in, func(a, b part) int { return cmp.Compare(a.start, b.start) })
	var idle, idleFrom time.Duration
	at := g.Start
	for _, p := range append(in, part{start: g.Start + g.Took}) {
		if p.start-at > idle {
			idle, idleFrom = p.start-at, at
		}
		at = max(at, p.end)
	}
	slices.SortStableFunc(in, func(a, b part) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	var names []string
	for _, p := range in[:min(len(in), gapUnits)] {
		names = append(names, fmt.Sprintf("%s (%s)", p.name, tenths(p.end-p.start)))
	}
	text := "systemd started " + strings.Join(names, ", ")
	if idle < gapLeast {
		return text
	}
	none := fmt.Sprintf("for %s from %s on no unit was starting", tenths(idle), tenths(idleFrom))
	if len(names) == 0 {
		return none
	}
	return text + "; " + none
}

// reportedIn returns what the node reported in a gap that systemd waits for.
func reportedIn(g Gap, started time.Time, events []Event) (out []string) {
	for _, e := range events {
		at := e.Time.Sub(started)
		if strings.HasPrefix(e.Message, WaitsFor) && at >= g.Start && at <= g.Start+g.Took {
			out = append(out, fmt.Sprintf("at %s %s", tenths(at), e.Message))
		}
	}
	return out[max(0, len(out)-gapUnits):]
}
