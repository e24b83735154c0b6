package initramfs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/image"
	"pando/internal/testkit"

	"github.com/klauspost/compress/zstd"
)

func unpack(t *testing.T, packed []byte) string {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// driverSet reads the DriverSet in a driver cpio.
func driverSet(t *testing.T, d DriverCPIO) image.DriverSet {
	t.Helper()
	raw := unpack(t, d.Data)
	_, rest, ok := strings.Cut(raw, "pando/drivers/"+d.Name+".json\x00")
	if !ok {
		t.Fatalf("%s has no description", d.Name)
	}
	var set image.DriverSet
	if err := json.NewDecoder(strings.NewReader(rest[strings.IndexByte(rest, '{'):])).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestDrivers(t *testing.T) {
	root := testkit.FakeTree(t)
	firmware := t.TempDir()
	if err := os.MkdirAll(filepath.Join(firmware, "rtl_nic"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(firmware, "rtl_nic/a.fw"), []byte("FIRMWARE"), 0o644); err != nil {
		t.Fatal(err)
	}
	opt := DriverOptions{Tree: root, Release: testkit.TestRelease, Firmware: firmware}
	scanned, err := Drivers(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Depmod(t, root)
	listed, err := Drivers(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range listed {
		if !bytes.Equal(listed[i].Data, scanned[i].Data) {
			t.Errorf("%s differs with and without depmod's files:\n%+v\n%+v", listed[i].Name,
				driverSet(t, listed[i]), driverSet(t, scanned[i]))
		}
	}
	base, net := listed[0], listed[1]
	checkNICs(t, listed)
	if want := []string{"crc32c_generic", "erofs", "libcrc32c", "nbd", "overlay"}; !slices.Equal(base.Modules, want) {
		t.Errorf("base has %v, want %v", base.Modules, want)
	}
	if want := []string{"asix", "libphy", "r8169", "realtek", "xhci_pci"}; !slices.Equal(net.Modules, want) {
		t.Errorf("net has %v, want %v", net.Modules, want)
	}
	set := driverSet(t, base)
	if want := []string{"nbd", "erofs", "overlay"}; !slices.Equal(set.Always, want) {
		t.Errorf("always %v, want %v: af_packet is built in", set.Always, want)
	}
	for _, m := range set.Modules {
		if want := []string{"crc32c_generic", "libcrc32c"}; m.Name == "erofs" && !slices.Equal(m.Needs, want) {
			t.Errorf("erofs needs %v, want %v", m.Needs, want)
		}
	}
	if !slices.Equal(net.Firmware, []string{"rtl_nic/a.fw"}) ||
		!slices.Equal(net.Missing, []string{"rtl_nic/missing.fw"}) {
		t.Errorf("firmware %v, missing %v", net.Firmware, net.Missing)
	}
	if !strings.Contains(unpack(t, net.Data), "lib/firmware/rtl_nic/a.fw\x00") {
		t.Error("the firmware is not in the cpio")
	}
}

// checkNICs checks which NICs the parts are for, and that the part of each NIC needs only base.
func checkNICs(t *testing.T, parts []DriverCPIO) {
	t.Helper()
	var got []string
	for _, p := range parts {
		got = append(
			got,
			fmt.Sprintf("%s instead of %q for %v %q: %v %v", p.Name, p.InsteadOf, p.For, p.PCI, p.Modules, p.Firmware),
		)
	}
	want := []string{
		`base instead of "" for [] "": [crc32c_generic erofs libcrc32c nbd overlay] []`,
		`net instead of "" for [] "": [asix libphy r8169 realtek xhci_pci] [rtl_nic/a.fw]`,
		`r8169 instead of "net" for [r8169] "10ec:8168": [libphy r8169 realtek] [rtl_nic/a.fw]`,
		`usb instead of "net" for [asix] "": [asix libphy realtek xhci_pci] []`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("parts:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, p := range parts[2:] {
		have := slices.Concat(parts[0].Modules, p.Modules)
		for _, m := range driverSet(t, p).Modules {
			for _, n := range m.Needs {
				if !slices.Contains(have, n) {
					t.Errorf("%s of %s needs %s, which comes with neither it nor base", m.Name, p.Name, n)
				}
			}
		}
		if !strings.Contains(unpack(t, p.Data), "kernel/"+p.For[0]+".ko\x00") {
			t.Errorf("%s has no module %s", p.Name, p.For[0])
		}
	}
}

// TestDriversOfVirtio: NICs whose driver is in base are listed for base, and have no part of their own.
func TestDriversOfVirtio(t *testing.T) {
	root := testkit.FakeTree(t)
	put := filepath.Join(root, "lib/modules", testkit.TestRelease, "kernel/virtio_net.ko")
	if err := os.WriteFile(put, testkit.FakeModule(t, "alias=virtio:d00000001v*"), 0o644); err != nil {
		t.Fatal(err)
	}
	parts, err := Drivers(context.Background(), DriverOptions{Tree: root, Release: testkit.TestRelease})
	if err != nil {
		t.Fatal(err)
	}
	if b := parts[0]; !slices.Equal(b.For, []string{"virtio_net"}) || b.PCI != "1af4:1000,1041" {
		t.Errorf("base is for %v %q", b.For, b.PCI)
	}
}

func TestDriversOfUselessKernel(t *testing.T) {
	root := testkit.FakeTree(t)
	if err := os.Remove(filepath.Join(root, "lib/modules", testkit.TestRelease, "kernel/nbd.ko")); err != nil {
		t.Fatal(err)
	}
	_, err := Drivers(context.Background(), DriverOptions{Tree: root, Release: testkit.TestRelease})
	if err == nil || !strings.Contains(err.Error(), "nbd") {
		t.Errorf("a kernel without nbd: %v", err)
	}
	for _, release := range []string{"", "../x", "nothing"} {
		if _, err := Drivers(context.Background(), DriverOptions{Tree: root, Release: release}); err == nil {
			t.Errorf("release %q was taken", release)
		}
	}
}

func FuzzParseModinfo(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseModinfo(b) })
}

// largeNICs are the drivers with which kernel+initrd of Debian 12 exceeds 12 MB: those of fast servers, and USB.
var largeNICs = map[string]bool{
	"dwmac_intel": true,
	"ixgbe":       true,
	"i40e":        true,
	"ice":         true,
	"bnx2x":       true,
	"qede":        true,
	"mlx4":        true,
	"mlx5_core":   true,
	"usb":         true,
}

// Maximum sizes of the part for one NIC, in bytes. The first leaves room for kernel, base and agent in 12 MB on
// Debian 12, and in 16 MB on Debian 13. The other one only detects growth.
const (
	smallNIC = 220_000
	largeNIC = 1_200_000
)

// TestDriverSizes checks the size of kernel+initrd for real kernels: PANDO_TEST_TREES names trees, separated by
// colons.
func TestDriverSizes(t *testing.T) {
	trees := os.Getenv("PANDO_TEST_TREES")
	if trees == "" {
		t.Skip("PANDO_TEST_TREES is not set: no tree with a real kernel to measure")
	}
	const agent = 3_300_000 // ceiling of the agent's cpio, which a test of its own holds
	for _, tree := range filepath.SplitList(trees) {
		kernels, err := filepath.Glob(filepath.Join(tree, "boot/vmlinuz-*"))
		if err != nil || len(kernels) == 0 {
			t.Fatalf("%s: no kernel (%v)", tree, err)
		}
		release := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
		info, err := os.Stat(kernels[0])
		if err != nil {
			t.Fatal(err)
		}
		parts, err := Drivers(context.Background(), DriverOptions{Tree: tree, Release: release})
		if err != nil {
			t.Fatal(err)
		}
		bound := int64(18_000_000)
		if info.Size() > 10_000_000 { // Debian 13's kernel alone is 4 MB larger
			bound = 22_000_000
		}
		k := info.Size() + agent
		for _, p := range parts {
			n := int64(len(p.Data))
			if p.InsteadOf == "" {
				k += n
			} else if n > smallNIC && !largeNICs[p.Name] || n > largeNIC {
				t.Errorf("%s: %s has %d bytes", release, p.Name, n)
			}
			t.Logf(
				"%s %-12s %3d modules %8d bytes, %9d unpacked, %d bytes of PCI ids, absent %v, firmware missing %d",
				release,
				p.Name,
				len(p.Modules),
				n,
				p.Raw,
				len(p.PCI),
				p.Absent,
				len(p.Missing),
			)
		}
		if t.Logf("K of %s with every NIC: %d bytes", release, k); k > bound {
			t.Errorf("K of %s has %d bytes, the bound is %d", release, k, bound)
		}
	}
}
