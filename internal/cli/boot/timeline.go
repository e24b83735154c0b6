package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/trace"
)

// barWidth keeps a timeline line within 80 columns.
const barWidth = 28

// printTimeline prints one boot: a heading, one line per stage with a bar on a common scale, failures below their
// stage, and systemd's times at the end.
func printTimeline(env *cmdenv.Env, b api.BootDetail) {
	output.Fields(
		env.Out,
		"boot",
		string(b.ID),
		"node",
		listing.BootOwner(b.Boot),
		"version",
		string(b.Version),
		"started",
		output.Time(b.Started),
		"state",
		string(b.State),
		"elapsed",
		output.Span(b.Elapsed),
		"received",
		output.BySource(b.Bytes),
		"failure",
		b.Failure,
		"hint",
		b.Hint,
	)
	if b.Fault != nil {
		env.Printf("\n%s\n  to do: %s\n", b.Fault.Text, b.Fault.Do)
	}
	total := timelineEnd(b)
	env.Printf("\n%-12s %9s %9s\n", "STAGE", "START", "TOOK")
	for _, s := range b.Steps {
		for _, g := range b.Gaps {
			if g.Before == s.Stage {
				text := output.OneLine(g.Text)
				env.Printf("%-12s %9s %9s  %s\n", "  -", output.Span(g.Start), output.Span(g.Took), text)
			}
		}
		printStep(env, s, total)
	}
	printIncidents(env, b)
	if b.Systemd != nil {
		printSystemd(env, b)
	}
}

// mostIncidents is how many incidents are printed: a node that runs for months may have many.
const mostIncidents = 20

// printIncidents lists the newest faults of the root device that the node recovered from, such as a failed peer. A
// stage's line shows only one of them.
func printIncidents(env *cmdenv.Env, b api.BootDetail) {
	var all []trace.Event
	for _, e := range b.Events {
		if e.Attrs[trace.AttrIncident] != "" {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(x, y trace.Event) int { return x.Time.Compare(y.Time) })
	env.Printf("\nbelow the root\n")
	if more := len(all) - mostIncidents; more > 0 {
		env.Printf("%9s  %d more, which --events prints\n", "", more)
		all = all[more:]
	}
	for _, e := range all {
		env.Printf("%9s  %s\n", output.Span(e.Time.Sub(b.Started)), output.OneLine(e.Message))
		if e.Hint != "" {
			env.Printf("%9s    hint: %s\n", "", output.OneLine(e.Hint))
		}
	}
}

// timelineEnd returns the end of the scale, which is the end of the last step.
func timelineEnd(b api.BootDetail) time.Duration {
	end := b.Elapsed
	for _, s := range b.Steps {
		end = max(end, s.Start+s.Duration)
	}
	return max(end, time.Millisecond)
}

func printStep(env *cmdenv.Env, s api.Step, total time.Duration) {
	took := output.Span(s.Duration)
	switch {
	case s.Open:
		took = "..."
	case s.Duration == 0:
		took = ""
	}
	line := fmt.Sprintf("%-12s %9s %9s  %s", s.Stage, output.Span(s.Start), took, bar(s.Start, s.Duration, total))
	var notes []string
	if s.Attempt > 1 {
		notes = append(notes, fmt.Sprintf("attempt %d", s.Attempt))
	}
	if got := output.BySource(s.Bytes); got != "" {
		notes = append(notes, got)
	}
	if s.Message != "" {
		notes = append(notes, s.Message)
	}
	env.Printf("%s\n", strings.TrimRight(line+" "+strings.Join(notes, ", "), " "))
	if s.Failure != "" {
		env.Printf("%-12s failed: %s\n", "", s.Failure)
	}
	if s.Hint != "" {
		env.Printf("%-12s   hint: %s\n", "", s.Hint)
	}
}

// bar draws a span on the scale. A span shorter than a column is one character.
func bar(start, took, total time.Duration) string {
	from := int(int64(start) * barWidth / int64(total))
	to := int(int64(start+took) * barWidth / int64(total))
	from = min(max(from, 0), barWidth-1)
	to = min(max(to, from), barWidth)
	if to == from {
		return strings.Repeat(" ", from) + "|" + strings.Repeat(" ", barWidth-1-from)
	}
	return strings.Repeat(" ", from) + strings.Repeat("=", to-from) + strings.Repeat(" ", barWidth-to)
}

// printSystemd prints the times of systemd. They count from the start of the kernel, and are shown on the scale of the
// timeline.
func printSystemd(env *cmdenv.Env, b api.BootDetail) {
	s, zero := b.Systemd, b.SystemdStart
	env.Printf("\nsystemd (its own clock, joined at the start of the kernel)\n")
	state := s.State
	if len(s.Failed) > 0 {
		state += ", failed: " + strings.Join(s.Failed, " ")
	}
	kernel := output.Span(s.Userspace)
	if zero < 0 {
		kernel = "" // in emulation the kernel's clock may start late: its time is wrong, the later ones are right
	}
	output.Fields(env.Out, "state", state, "kernel and initramfs", kernel, "systemd started "+
		"at", output.Span(zero+s.Userspace),
		"userspace", output.Span(s.Finish-s.Userspace), "default target reached at", output.Span(zero+s.Finish))
	if len(s.Units) == 0 {
		return
	}
	t := output.NewTable(env.Out, "UNIT", "START", "TOOK", "CRITICAL")
	for _, u := range s.Units {
		critical := ""
		if u.Chain {
			critical = "yes"
		}
		t.Row(u.Unit, output.Span(zero+u.Start), output.Span(u.Active-u.Start), critical)
	}
	t.Flush()
}

func printEvents(env *cmdenv.Env, b api.BootDetail) {
	env.Printf("\n")
	for _, e := range b.Events {
		env.Printf("%9s  %s\n", output.Span(e.Time.Sub(b.Started)), listing.EventText(e))
	}
}
