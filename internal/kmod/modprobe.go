package kmod

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// DriverSets is the directory of the driver sets in the initramfs.
const DriverSets = "/pando/drivers"

// Modprobe is the program that the kernel runs as /sbin/modprobe for a missing module, such as a PHY driver or a
// checksum. Its arguments are "-q -- NAME". Like modprobe -q it prints nothing for an unknown name. It returns the
// exit status.
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
