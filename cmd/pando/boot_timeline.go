package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// barWidth keeps a timeline line within 80 columns.
const barWidth = 28

// printTimeline draws one boot: a head, one line per stage with a bar on a common scale, failures below the
// stage they belong to, and systemd's own figures at the end.
func (a *app) printTimeline(b api.BootDetail) {
	fields(
		a.out,
		"boot",
		string(b.ID),
		"node",
		bootOwner(b.Boot),
		"version",
		string(b.Version),
		"started",
		clock(b.Started),
		"state",
		string(b.State),
		"elapsed",
		span(b.Elapsed),
		"received",
		sources(b.Bytes),
		"failure",
		b.Failure,
		"hint",
		b.Hint,
	)
	if b.Fault != nil {
		a.printf("\n%s\n  to do: %s\n", b.Fault.Text, b.Fault.Do)
	}
	total := timelineEnd(b)
	a.printf("\n%-12s %9s %9s\n", "STAGE", "START", "TOOK")
	for _, s := range b.Steps {
		a.printStep(s, total)
	}
	a.printIncidents(b)
	if b.Systemd != nil {
		a.printSystemd(b)
	}
}

// mostIncidents is how many are printed: a node that has run for months may have had many.
const mostIncidents = 20

// printIncidents lists what went wrong below the root and was dealt with, the newest: a stage's line has room for
// one fact.
func (a *app) printIncidents(b api.BootDetail) {
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
	a.printf("\nbelow the root\n")
	if more := len(all) - mostIncidents; more > 0 {
		a.printf("%9s  %d more, which --events prints\n", "", more)
		all = all[more:]
	}
	for _, e := range all {
		a.printf("%9s  %s\n", span(e.Time.Sub(b.Started)), oneLine(e.Message))
		if e.Hint != "" {
			a.printf("%9s    hint: %s\n", "", oneLine(e.Hint))
		}
	}
}

// timelineEnd is where the scale ends: the end of the last step.
func timelineEnd(b api.BootDetail) time.Duration {
	end := b.Elapsed
	for _, s := range b.Steps {
		end = max(end, s.Start+s.Duration)
	}
	return max(end, time.Millisecond)
}

func (a *app) printStep(s api.Step, total time.Duration) {
	took := span(s.Duration)
	switch {
	case s.Open:
		took = "..."
	case s.Duration == 0:
		took = ""
	}
	line := fmt.Sprintf("%-12s %9s %9s  %s", s.Stage, span(s.Start), took, bar(s.Start, s.Duration, total))
	var notes []string
	if s.Attempt > 1 {
		notes = append(notes, fmt.Sprintf("attempt %d", s.Attempt))
	}
	if got := sources(s.Bytes); got != "" {
		notes = append(notes, got)
	}
	if s.Message != "" {
		notes = append(notes, s.Message)
	}
	a.printf("%s\n", strings.TrimRight(line+" "+strings.Join(notes, ", "), " "))
	if s.Failure != "" {
		a.printf("%-12s failed: %s\n", "", s.Failure)
	}
	if s.Hint != "" {
		a.printf("%-12s   hint: %s\n", "", s.Hint)
	}
}

// bar is a span on the scale; what is shorter than a column still shows as one mark.
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

// printSystemd joins systemd's clock, which starts with the kernel, to the timeline.
func (a *app) printSystemd(b api.BootDetail) {
	s, zero := b.Systemd, b.SystemdStart
	a.printf("\nsystemd (its own clock, joined at the start of the kernel)\n")
	state := s.State
	if len(s.Failed) > 0 {
		state += ", failed: " + strings.Join(s.Failed, " ")
	}
	kernel := span(s.Userspace)
	if zero < 0 {
		kernel = "" // its clock did not begin when it did, as it happens in emulation; the moments below still fit
	}
	fields(a.out, "state", state, "kernel and initramfs", kernel, "systemd started at", span(zero+s.Userspace),
		"userspace", span(s.Finish-s.Userspace), "default target reached at", span(zero+s.Finish))
	if len(s.Units) == 0 {
		return
	}
	t := newTable(a.out, "UNIT", "START", "TOOK", "CRITICAL")
	for _, u := range s.Units {
		critical := ""
		if u.Chain {
			critical = "yes"
		}
		t.row(u.Unit, span(zero+u.Start), span(u.Active-u.Start), critical)
	}
	t.flush()
}

func (a *app) printEvents(b api.BootDetail) {
	a.printf("\n")
	for _, e := range b.Events {
		a.printf("%9s  %s\n", span(e.Time.Sub(b.Started)), eventText(e))
	}
}
