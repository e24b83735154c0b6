package initrd

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/trace"
)

// kernelLogMost is how much of the kernel's log goes with the report of a failure.
const kernelLogMost = 8 << 10

// kernelLog is the end of the kernel's log, if a stage failed: what is on the screen then. It is "" otherwise.
func kernelLog(events []trace.Event) string {
	if !slices.ContainsFunc(events, func(e trace.Event) bool { return e.Kind == trace.Fail }) {
		return ""
	}
	buf := make([]byte, kernelLogMost)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		return "" // the failure itself is told
	}
	return strings.ToValidUTF8(string(buf[:n]), "")
}
