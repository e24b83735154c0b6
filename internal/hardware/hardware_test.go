package hardware

import (
	"pando/internal/testkit/nodekit"
	"slices"
	"testing"
)

func TestPCIDevices(t *testing.T) {
	sys := nodekit.SysTree(t, map[string]string{
		"bus/pci/devices/0000:00:03.0/vendor": "0x8086", "bus/pci/devices/0000:00:03.0/device": "0x1533",
		"bus/pci/devices/0000:00:03.0/class":  "0x020000",
		"bus/pci/devices/0000:00:02.0/vendor": "0x8086", "bus/pci/devices/0000:00:02.0/device": "0x1533",
		"bus/pci/devices/0000:00:02.0/class":  "0x020000",
		"bus/pci/devices/0000:00:01.0/vendor": "0x10de", "bus/pci/devices/0000:00:01.0/device": "0x1c82",
		"bus/pci/devices/0000:00:01.0/class": "0x030200",
	})
	if got, want := pciDevices(sys), []string{"10de:1c82:0302", "8086:1533:0200"}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
	if got := pciDevices(t.TempDir()); len(got) > 0 {
		t.Errorf("devices of a machine without PCI: %v", got)
	}
}

func TestLinkRate(t *testing.T) {
	sys := nodekit.SysTree(t, map[string]string{
		"class/net/eth0/speed": "1000", "class/net/eth1/speed": "-1", "class/net/eth2/speed": "fast",
	})
	for name, want := range map[string]int64{"eth0": 1e9, "eth1": 0, "eth2": 0, "eth3": 0} {
		if got := LinkRate(sys, name); got != want {
			t.Errorf("%s: %d bits a second, want %d", name, got, want)
		}
	}
}

func TestCPUMaker(t *testing.T) {
	for cpuinfo, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n":  "GenuineIntel",
		"processor\t: 0\nBogoMIPS\t: 125.00\nCPU implementer\t: 0x41\n": "0x41",
		"": "", "processor\t: 0\n": "",
	} {
		if got := cpuMaker(cpuinfo); got != want {
			t.Errorf("%q: %q, want %q", cpuinfo, got, want)
		}
	}
}
