package api

import (
	"fmt"
	"strings"

	"pando/internal/trace"
)

// ConsoleLines returns the known text of the node's console: first the messages of Pando's init, with the seconds since
// the boot began, and then the kernel's.
func (b BootDetail) ConsoleLines() []string {
	var out []string
	for _, e := range b.Events {
		if rank := trace.Rank(e.Stage); rank < trace.Rank(trace.Init) || rank > trace.Rank(trace.SwitchRoot) ||
			e.Kind == trace.Begin ||
			e.Attrs[trace.AttrPanic] != "" {
			continue
		}
		line := fmt.Sprintf("%8.2f  pando: %-10s %s", e.Time.Sub(b.Started).Seconds(), e.Stage, e.Message)
		if e.Kind == trace.Fail {
			line = fmt.Sprintf(
				"%8.2f  pando: %s FAILED, attempt %d: %s",
				e.Time.Sub(b.Started).Seconds(),
				e.Stage,
				max(e.Attempt, 1),
				e.Message,
			)
		}
		out = append(out, strings.TrimRight(line, " "))
		if e.Hint != "" && e.Kind != trace.End {
			out = append(out, "          to do: "+e.Hint)
		}
	}
	if b.Console != "" {
		out = append(out, strings.Split(strings.TrimRight(b.Console, "\n"), "\n")...)
	}
	return out
}
