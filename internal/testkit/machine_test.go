package testkit

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/fleet"
)

// script prints on the console that the boot loader ran it.
const script = "#!ipxe\necho harness reached ${net0/mac}\nsleep 600\n"

// Real machines boot from a plain dnsmasq. If this fails, no boot test is meaningful.
func TestRealMachinesRunAScript(t *testing.T) {
	if os.Getenv("PANDO_BOOT") == "" {
		t.Skip("real machines: PANDO_BOOT is not set (make test sets it)")
	}
	network, err := NewNet("kit", netip.MustParsePrefix("10.70.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	runDnsmasq(t, network)
	for _, c := range []MachineConfig{
		{Name: "bios", Firmware: BIOS, MAC: fleet.MAC{0x52, 0x54, 0, 0x70, 0, 1}},
		{Name: "bios-e1000", Firmware: BIOS, NIC: "e1000", MAC: fleet.MAC{0x52, 0x54, 0, 0x70, 0, 2}},
		{Name: "uefi", Firmware: UEFI, MAC: fleet.MAC{0x52, 0x54, 0, 0x70, 0, 3}},
	} {
		t.Run(c.Name, func(t *testing.T) {
			c.Net, c.Dir, c.Memory = network, t.TempDir(), 256
			reachScript(t, c)
		})
	}
}

func reachScript(t *testing.T, c MachineConfig) {
	m, err := StartMachine(c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := m.Console.Wait(ctx, "harness reached "+c.MAC.String()); err != nil {
		t.Fatal(err)
	}
	if err := m.Freeze(ctx); err != nil {
		t.Error(err)
	}
	if err := m.Thaw(ctx); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// runDnsmasq serves the script, and for firmware without iPXE the boot loader of Debian's package ipxe.
func runDnsmasq(t *testing.T, network *Net) {
	t.Helper()
	tree := t.TempDir()
	if err := os.Chmod(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(filepath.Join(tree, "snponly.efi"), "/usr/lib/ipxe/snponly.efi"); err != nil {
		t.Skipf("boot loader for UEFI: %v (Debian's package ipxe has it)", err)
	}
	if err := os.WriteFile(filepath.Join(tree, "script.ipxe"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("dnsmasq is not installed")
	}
	c := network.Command(t.Context(), "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--interface="+BridgeName, "--bind-dynamic", "--dhcp-leasefile="+filepath.Join(tree, "leases"),
		"--dhcp-range=10.70.0.100,10.70.0.200", "--dhcp-userclass=set:ipxe,iPXE", "--user=root",
		"--enable-tftp", "--tftp-root="+tree, "--dhcp-boot=tag:!ipxe,snponly.efi", "--dhcp-boot=tag:ipxe,script.ipxe")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Cancel()
		c.Wait() // the status is that of a killed program
	})
}
