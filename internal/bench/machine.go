package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes this machine for result files.
func Machine() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // an empty release shortens the description
	return strings.TrimSpace(
		fmt.Sprintf("%d processors%s, %s, Linux %s", runtime.NumCPU(), hardware(), runtime.GOARCH, release),
	)
}

// hardware returns the model of the processors and the size of the memory from /proc. Unknown parts are left out.
func hardware() (out string) {
	processors, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, ok := strings.Cut(string(processors), "model name\t: "); ok {
		model, _, _ := strings.Cut(rest, "\n")
		out = " (" + model + ")"
	}
	var m unix.Sysinfo_t
	if unix.Sysinfo(&m) == nil {
		out += fmt.Sprintf(", %.0f GB", float64(m.Totalram)*float64(m.Unit)/1e9)
	}
	return out
}
