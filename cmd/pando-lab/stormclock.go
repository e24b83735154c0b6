package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// clock is how long a measurement takes, and what of it each system took, with its starts and with runs that were
// discarded.
type clock struct {
	began   time.Time
	systems []string // in the order in which they were first run
	took    map[string]time.Duration
}

func newClock() clock { return clock{began: time.Now(), took: map[string]time.Duration{}} }

func (c *clock) add(system string, d time.Duration) {
	if _, ok := c.took[system]; !ok {
		c.systems = append(c.systems, system)
	}
	c.took[system] += d
}

// took notes beside the newest command how long it took.
func (r *report) took(d time.Duration) {
	r.Command += fmt.Sprintf("  # %s", d.Round(time.Second))
}

// since tells whether a run began after a moment: it may have taken the place of another.
func (r *report) since(t time.Time) bool {
	return slices.ContainsFunc(r.storms(), func(x stormRun) bool { return x.Began.After(t) })
}

// commands are those that were given, each once, where it was given last.
func (r *report) commands() (out []string) {
	bare := func(line string) string {
		line, _, _ = strings.Cut(line, "  # ")
		return line
	}
	for line := range strings.Lines(r.Command) {
		line = strings.TrimSuffix(line, "\n")
		out = append(slices.DeleteFunc(out, func(before string) bool { return bare(before) == bare(line) }), line)
	}
	return out
}

// text is for people.
func (c *clock) text(now time.Time) string {
	all := now.Sub(c.began)
	rest, out := all, []string{}
	for _, name := range c.systems {
		rest -= c.took[name]
		out = append(out, fmt.Sprintf("%s %s", name, c.took[name].Round(time.Second)))
	}
	out = append(out, fmt.Sprintf("before and after %s", rest.Round(time.Second)))
	return fmt.Sprintf("Took %s: %s.", all.Round(time.Second), strings.Join(out, ", "))
}
