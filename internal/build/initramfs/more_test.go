package initramfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/image"
	"pando/internal/testkit"
)

// TestFurtherDrivers: if no list names the driver of an adapter, the initramfs has only its aliases, so that a node
// can report the missing module. If the driver is requested, all nodes get it, and nodes with that adapter get only
// it.
func TestFurtherDrivers(t *testing.T) {
	root := testkit.FakeTree(t)
	dir := filepath.Join(root, "lib/modules", testkit.TestRelease, "kernel/drivers/net/ethernet/chelsio")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const alias = "pci:v00001425d00005401sv*sd*bc*sc*i*"
	module := testkit.FakeModule(t, "alias="+alias, "alias=virtio:d1")
	if err := os.WriteFile(filepath.Join(dir, "cxgb4.ko"), module, 0o644); err != nil {
		t.Fatal(err)
	}
	opt := DriverOptions{Tree: root, Release: testkit.TestRelease}
	parts, err := Drivers(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	find := func(set image.DriverSet) image.Module {
		i := slices.IndexFunc(set.Modules, func(m image.Module) bool { return m.Name == "cxgb4" })
		if i < 0 {
			t.Fatalf("%s does not know cxgb4: %+v", set.Name, set.Modules)
		}
		return set.Modules[i]
	}
	net := parts[1]
	if m := find(driverSet(t, net)); m.Path != "" || !slices.Equal(m.Aliases, []string{alias}) ||
		slices.Contains(net.Modules, "cxgb4") {
		t.Errorf("not asked for: %+v, in %v", m, net.Modules)
	}
	opt.More = []string{"cxgb4", "r8169"}
	if parts, err = Drivers(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	if m := find(driverSet(t, parts[1])); m.Path == "" || !slices.Contains(parts[1].Modules, "cxgb4") {
		t.Errorf("asked for: %+v, in %v", m, parts[1].Modules)
	}
	var m image.Manifest
	for _, p := range parts {
		m.Drivers = append(m.Drivers, image.Driver{Name: p.Name, InsteadOf: p.InsteadOf, For: p.For, PCI: p.PCI})
	}
	if known, ok := m.DriversFor(image.NIC{PCI: true, Vendor: 0x1425, Device: 0x5401}); !ok ||
		!slices.ContainsFunc(known, func(d image.Driver) bool { return d.Name == "cxgb4" }) {
		t.Errorf("a node with it gets %+v", known)
	}
	if more := MoreOf(m); !slices.Equal(more, []string{"cxgb4"}) {
		t.Errorf("asked for were %v", more)
	}
	opt.More = []string{"cxgb9"}
	if _, err := Drivers(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "no module cxgb9") {
		t.Errorf("a module that the kernel has not: %v", err)
	}
}

// TestOtherBusesAreKnown: what is not sent is named for adapters of USB and of other buses, too; modems, wireless and
// virtual devices are no adapters that a node boots by.
func TestOtherBusesAreKnown(t *testing.T) {
	root := testkit.FakeTree(t)
	for path, alias := range map[string]string{
		"usb/ch9200.ko":             "usb:v1A86pE092d*dc*dsc*dp*ic*isc*ip*in*",
		"thunderbolt-net.ko":        "tbsvc:knetworkp00000001v*r*",
		"fjes/fjes.ko":              "acpi*:PNP0C02:*",
		"ethernet/x/board_eth.ko":   "of:N*T*Cmaker,board-eth",
		"usb/qmi_wwan.ko":           "usb:v05C6p9212d*dc*dsc*dp*icFFiscFFipFFin*",
		"wireless/y/iwlwifi.ko":     "pci:v00008086d000008B1sv*sd*bc*sc*i*",
		"can/peak_pciefd.ko":        "pci:v0000001Cd00000013sv*sd*bc*sc*i*",
		"dummy.ko":                  "rtnl-link-dummy",
		"../block/not_a_network.ko": "pci:v0000001Cd00000014sv*sd*bc*sc*i*",
	} {
		file := filepath.Join(root, "lib/modules", testkit.TestRelease, "kernel/drivers/net", path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, testkit.FakeModule(t, "alias="+alias), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := Drivers(t.Context(), DriverOptions{Tree: root, Release: testkit.TestRelease})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range driverSet(t, parts[1]).Modules {
		if m.Path == "" {
			names = append(names, m.Name)
		}
	}
	if want := []string{"board_eth", "ch9200", "fjes", "thunderbolt_net"}; !slices.Equal(names, want) {
		t.Errorf("known are %v, want %v", names, want)
	}
}
