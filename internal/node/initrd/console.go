package initrd

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"pando/internal/trace"
)

// Levels of the kernel's log. Failures are critical, so that they are shown with `quiet` too.
const (
	logCritical = 2
	logNotice   = 5
)

// console writes to the kernel's log, which is shown on every console, in dmesg, and later in the image's journal.
type console struct {
	kmsg io.Writer
	// direct receives failures too if the log level is so low that the kernel would hide them.
	direct io.Writer
}

// openConsole sets the kernel's log up so that it drops none of init's lines. Without /dev/kmsg the console is
// silent.
func openConsole() *console {
	// The kernel refuses the write without the line end.
	_ = os.WriteFile("/proc/sys/kernel/printk_devkmsg", []byte("on\n"), 0o644)
	c := &console{kmsg: io.Discard}
	if f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
		c.kmsg = f
	}
	if level, err := os.ReadFile("/proc/sys/kernel/printk"); err == nil && hidden(string(level)) {
		if f, err := os.OpenFile("/dev/console", os.O_WRONLY, 0); err == nil {
			c.direct = f
		}
	}
	return c
}

// hidden reports, from the content of /proc/sys/kernel/printk, whether critical lines are not shown on the console.
func hidden(printk string) bool {
	f := strings.Fields(printk)
	if len(f) == 0 {
		return false
	}
	n, err := strconv.Atoi(f[0])
	return err == nil && n <= logCritical
}

func (c *console) print(level int, text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(c.kmsg, "<%d>pando: %.900s\n", level, line)
		if level <= logCritical && c.direct != nil {
			fmt.Fprintf(c.direct, "pando: %s\r\n", line)
		}
	}
}

func (c *console) logf(format string, args ...any) { c.print(logNotice, fmt.Sprintf(format, args...)) }

// show prints an event of a phase, but not the beginning of a phase.
func (c *console) show(e trace.Event, took time.Duration) {
	if text, level := describe(e, took); text != "" {
		c.print(level, text)
	}
}

// describe returns the text of an event for a person at the machine, and its log level.
func describe(e trace.Event, took time.Duration) (string, int) {
	var b strings.Builder
	level := logNotice
	switch e.Kind {
	case trace.End:
		fmt.Fprintf(&b, "%-10s %s (%.2f s)", e.Stage, e.Message, took.Seconds())
	case trace.Info:
		fmt.Fprintf(&b, "%-10s %s", e.Stage, e.Message)
	case trace.Fail:
		level = logCritical
		fmt.Fprintf(&b, "%s FAILED, attempt %d\n  what:  %s", e.Stage, e.Attempt, e.Message)
	}
	if e.Hint != "" && e.Kind != trace.End && e.Kind != trace.Begin {
		fmt.Fprintf(&b, "\n  to do: %s", e.Hint)
	}
	if next := e.Attrs["next"]; next != "" {
		fmt.Fprintf(&b, "\n  now:   %s", next)
	}
	return b.String(), level
}
