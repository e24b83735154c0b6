package kmod

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// DriverSets is where the initramfs has its driver sets.
const DriverSets = "/pando/drivers"

// Modprobe is the role that the kernel runs as /sbin/modprobe for a missing module, such as an adapter's PHY or a
// checksum. Its arguments are "-q -- NAME". Like modprobe -q it is silent about an unknown name.
func Modprobe(args []string, stderr io.Writer) int {
	var names []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			names = append(names, a)
		}
	}
	index, err := ReadIndex(DriverSets, "")
	if err != nil {
		return 1
	}
	line, _ := os.ReadFile("/proc/cmdline")
	loader := NewLoader(index, ParseCommandLine(string(line)))
	found := loader.Wanted(names)
	if err := loader.Load(found); err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 1
	}
	if len(found) == 0 {
		return 1
	}
	return 0
}
