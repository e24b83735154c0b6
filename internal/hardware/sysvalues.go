package hardware

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SysValue is what a file of sysfs says, "" if there is none.
func SysValue(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// LinkRate is what an interface sends and receives, in bits a second; 0: its driver does not know, as of most virtual
// ones, or there is no cable.
func LinkRate(sys, name string) int64 {
	mbit, err := strconv.ParseInt(SysValue(sys, "class/net/"+name+"/speed"), 10, 32)
	if err != nil || mbit < 0 {
		return 0
	}
	return mbit * 1e6
}

// Exists reports whether there is something of this name, be it a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// WithoutDriver lists the modaliases of PCI network adapters that no driver took: the reason that a machine
// with a NIC has none.
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

// Sysfs is where init and the agent read devices.
const Sysfs = "/sys"
