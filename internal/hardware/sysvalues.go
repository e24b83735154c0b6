package hardware

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SysValue returns the trimmed content of a file, "" if it cannot be read.
func SysValue(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// LinkRate returns the rate of an interface in bits a second. It is 0 without a cable, or if the driver does not know
// it, as most virtual drivers.
func LinkRate(sys, name string) int64 {
	mbit, err := strconv.ParseInt(SysValue(sys, "class/net/"+name+"/speed"), 10, 32)
	if err != nil || mbit < 0 {
		return 0
	}
	return mbit * 1e6
}

// Exists reports whether there is a file of this name. A dangling symbolic link counts.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// WithoutDriver lists the modaliases of PCI network adapters that have no driver. They explain why a machine with an
// adapter has no network interface.
func WithoutDriver(sys string) []string {
	const ethernet = "0x0200" // PCI class, first four digits
	dirs, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*"))
	var out []string
	for _, d := range dirs {
		if strings.HasPrefix(SysValue(d, "class"), ethernet) && !Exists(filepath.Join(d, "driver")) {
			out = append(out, SysValue(d, "modalias"))
		}
	}
	return out
}

// Sysfs is the mount point of sysfs.
const Sysfs = "/sys"
