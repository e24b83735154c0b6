package main

import (
	"fmt"
	"slices"
	"strings"
)

// thinkText says how much of a boot is its own pauses.
func (r *report) thinkText() string {
	var all []float64
	for _, x := range r.storms() {
		all = append(all, x.Think)
	}
	slices.Sort(all)
	var words []string
	for _, think := range slices.Compact(all) {
		words = append(words, fmt.Sprintf("%g", think))
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"Between its reads a boot thinks for %s W/(eta B) in all (`--think`), each pause in proportion to the "+
			"recorded one.",
		strings.Join(words, ", or "),
	)
}

// framesText says how many runs had links that were faster than Ethernet of their rate is.
func (r *report) framesText() string {
	all, short := 0, 0
	for _, x := range r.storms() {
		if all++; x.Overhead == 0 {
			short++
		}
	}
	if short == 0 {
		return ""
	}
	return fmt.Sprintf(
		"Of %s, %d had links that did not count what Ethernet has around a frame: their times are 1.6 %% shorter "+
			"than they would be now.",
		runsText(all),
		short,
	)
}

// commandsText says that of some commands it is not known where they left their results.
func (r *report) commandsText() string {
	for line := range strings.Lines(r.Command) {
		if !strings.Contains(line, "-dir") {
			return "Of commands without `--dir` it was not noted."
		}
	}
	return ""
}

// notes are sentences about an image's measurement.
func (r *report) notes() string {
	var out []string
	for _, text := range []string{r.releasesText(), r.thinkText(), r.framesText(), r.commandsText()} {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

// discardedText is a line for each run that was discarded, with the reason; "": none was.
func discardedText(runs []stormRun) string {
	var out strings.Builder
	for _, x := range runs {
		if x.Discarded {
			fmt.Fprintf(
				&out,
				"- discarded, and in no figure: `%s`, N=%d, links of %s%s: %s\n",
				x.System,
				x.Nodes,
				x.links(),
				x.circumstances(),
				x.Load.tooBusy(),
			)
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "\n" + out.String()
}

// circumstances are what a run had that others had not.
func (r stormRun) circumstances() string {
	var out string
	if r.Fault != "" {
		out += ", fault " + r.Fault
	}
	if r.K != nil {
		out += ", with K"
	}
	if r.Change != (change{}) {
		out += ", " + r.Change.String()
	}
	return out
}
