package initrd

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/trace"
)

// kernelLogMost is how many bytes of the kernel's log are sent with a failure.
const kernelLogMost = 8 << 10

// kernelLog returns the end of the kernel's log, which is what the screen shows, if one of the events is a failure.
// Otherwise it returns "".
func kernelLog(events []trace.Event) string {
	if !slices.ContainsFunc(events, func(e trace.Event) bool { return e.Kind == trace.Fail }) {
		return ""
	}
	buf := make([]byte, kernelLogMost)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		return "" // the failure is reported without it
	}
	return strings.ToValidUTF8(string(buf[:n]), "")
}
