package link

import (
	"pando/internal/testkit/nodekit"
	"reflect"
	"testing"

	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/kmod"
)

func twoAdapters(t *testing.T) string {
	return nodekit.SysTree(t, map[string]string{
		"class/net/eth0/type": "1", "class/net/eth0/ifindex": "2", "class/net/eth0/address": "52:54:00:00:00:01",
		"class/net/eth0/device/driver": "->../../bus/pci/drivers/e1000e", "class/net/eth0/carrier": "0",
		"class/net/eth1/type": "1", "class/net/eth1/ifindex": "3", "class/net/eth1/address": "52:54:00:00:00:02",
		"class/net/eth1/device/driver": "->../../bus/usb/drivers/r8152", "class/net/eth1/carrier": "1",
		"class/net/br0/type": "1", "class/net/br0/ifindex": "4", "class/net/br0/address": "52:54:00:00:00:02",
		"class/net/lo/type": "772", "class/net/lo/ifindex": "1", "class/net/lo/address": "00:00:00:00:00:00",
		"bus/pci/devices/0000:00:03.0/class": "0x020000", "bus/pci/devices/0000:00:03.0/modalias": "pci:v1",
		"bus/pci/devices/0000:00:03.0/driver": "->../../drivers/e1000e",
		"bus/pci/devices/0000:00:04.0/class":  "0x020000", "bus/pci/devices/0000:00:04.0/modalias": "pci:v2",
		"bus/pci/devices/0000:00:05.0/class": "0x030000", "bus/pci/devices/0000:00:05.0/modalias": "pci:v3",
	})
}

func TestAdapters(t *testing.T) {
	sys := twoAdapters(t)
	all := Adapters(sys)
	want := []NIC{
		{2, "eth0", fleet.MAC{0x52, 0x54, 0, 0, 0, 1}, "e1000e"},
		{3, "eth1", fleet.MAC{0x52, 0x54, 0, 0, 0, 2}, "r8152"},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("adapters %+v, want %+v", all, want)
	}
	if all[0].carrier(sys) || !all[1].carrier(sys) {
		t.Error("carrier read wrongly")
	}
	if got := Pick(all, all[1].MAC); len(got) != 1 || got[0].Name != "eth1" {
		t.Errorf("picked %v", got)
	}
	if got := Pick(all, fleet.MAC{9}); len(got) != 2 {
		t.Errorf("without the adapter that booted, %v are tried, want all", got)
	}
	if got := hardware.WithoutDriver(sys); !reflect.DeepEqual(got, []string{"pci:v2"}) {
		t.Errorf("adapters without a driver: %v", got)
	}
	if got := kmod.DeviceAliases(sys); !reflect.DeepEqual(got, []string{"pci:v1", "pci:v2", "pci:v3"}) {
		t.Errorf("modaliases %v", got)
	}
}
