package boot

import (
	"os"
	"path/filepath"
	"strings"
)

func sysValue(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// withoutDriver lists the modaliases of PCI network adapters that no driver took: the reason that a machine
// with a NIC has none.
func withoutDriver(sys string) []string {
	const ethernet = "0x0200" // PCI class, first four digits
	dirs, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*"))
	var out []string
	for _, d := range dirs {
		if strings.HasPrefix(sysValue(d, "class"), ethernet) && !exists(filepath.Join(d, "driver")) {
			out = append(out, sysValue(d, "modalias"))
		}
	}
	return out
}

// sysfs is where init and the agent read devices.
const sysfs = "/sys"
