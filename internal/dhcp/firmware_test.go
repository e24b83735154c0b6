package dhcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/netboot"
)

// Where Debian puts what these tests need: packages ipxe, ovmf, qemu-system-x86.
const (
	ipxeDir  = "/usr/lib/ipxe"
	ovmfCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// TestRealFirmware runs real firmware from its first packet to the script of a waiting machine, and once round its
// loop. It covers what test/boot does not: UEFI HTTP Boot, undionly under a BIOS's PXE, and a boot menu with port 4011.
func TestRealFirmware(t *testing.T) {
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("takes minutes: PANDO_FULL is not set (make test-full sets it)")
	}
	need(t, "qemu-system-x86_64")
	menu := proxySpec()
	menu.Menu = true
	chain := ownSpec()
	chain.Chain = "undionly.kpxe"
	tests := []struct {
		name   string
		spec   helperSpec
		beside bool // dnsmasq gives the addresses
		args   func(dir string) ([]string, error)
		kinds  []netboot.Kind // that are seen, in this order
		tftp   string         // sent
	}{
		{"undionly", chain, false, bios, []netboot.Kind{netboot.IPXE}, "undionly.kpxe"},
		{
			"HTTP Boot",
			ownSpec(),
			false,
			uefi("IPv4PXESupport", "IPv6PXESupport"),
			[]netboot.Kind{netboot.HTTPBoot, netboot.IPXE},
			"",
		},
		{
			"HTTP Boot beside dnsmasq",
			proxySpec(),
			true,
			uefi("IPv4PXESupport", "IPv6PXESupport"),
			[]netboot.Kind{netboot.HTTPBoot, netboot.IPXE},
			"",
		},
		{
			"menu beside dnsmasq",
			menu,
			true,
			uefi("IPv6PXESupport"),
			[]netboot.Kind{netboot.PXE, netboot.IPXE},
			"snponly.efi",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			net := newNetns(t, "10.77.0.1/24")
			tt.spec.Files = ipxeDir
			s := net.serve(tt.spec)
			if tt.beside {
				site(net)
			}
			net.run("ip", "tuntap", "add", "tap0", "mode", "tap")
			net.run("ip", "link", "set", "tap0", "master", "br0", "up")
			dir := t.TempDir()
			args, err := tt.args(dir)
			if err != nil {
				t.Skip(err)
			}
			machine(t, net, dir, args)
			for _, kind := range tt.kinds {
				s.until(
					"a packet of "+string(kind),
					2*time.Minute,
					func(l line) bool { return l.Seen != nil && l.Seen.Client.Kind == kind },
				)
			}
			if tt.tftp != "" {
				s.untilOrBefore(
					"TFTP",
					time.Minute,
					func(l line) bool { return l.TFTP != nil && l.TFTP.Name == tt.tftp && l.TFTP.Bytes == l.TFTP.Size },
				)
			}
			for range 2 {
				q := s.until("its script", 2*time.Minute, func(l line) bool { return l.Query != nil }).Query
				if q.MAC != alice || !q.IP.IsValid() {
					t.Errorf("asked by %+v", q)
				}
			}
		})
	}
}

// untilOrBefore is until that also counts lines read before.
func (s *served) untilOrBefore(what string, limit time.Duration, fits func(line) bool) {
	s.t.Helper()
	for _, l := range s.all {
		if fits(l) {
			return
		}
	}
	s.until(what, limit, fits)
}

// machine runs QEMU inside until the test ends. Its console goes to the test's log when the test fails.
func machine(t *testing.T, net *netns, dir string, args []string) {
	t.Helper()
	console := filepath.Join(dir, "console")
	common := []string{
		"qemu-system-x86_64",
		"-nodefaults",
		"-display",
		"none",
		"-machine",
		"q35,graphics=off",
		"-m",
		"256",
		"-accel",
		"tcg",
		"-cpu",
		"max,-cx16",
		"-serial",
		"file:" + console,
		"-netdev",
		"tap,id=lan,ifname=tap0,script=no,downscript=no",
	}
	cmd := net.cmd(context.Background(), append(common, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(console)
			t.Logf("console:\n%s", b)
		}
	})
}

func bios(string) ([]string, error) {
	return []string{"-device", "virtio-net-pci,netdev=lan,bootindex=1,mac=" + aliceMAC}, nil
}

// uefi returns OVMF with its own network stack, and with some of its boot methods turned off.
func uefi(off ...string) func(string) ([]string, error) {
	return func(dir string) ([]string, error) {
		vars := filepath.Join(dir, "vars.fd")
		if err := copyFile(vars, ovmfVars); err != nil {
			return nil, fmt.Errorf("package ovmf: %w", err)
		}
		args := []string{
			"-device",
			"virtio-net-pci,netdev=lan,bootindex=1,romfile=,mac=" + aliceMAC,
			"-device",
			"virtio-rng-pci",
			"-drive",
			"if=pflash,format=raw,unit=0,readonly=on,file=" + ovmfCode,
			"-drive",
			"if=pflash,format=raw,unit=1,file=" + vars,
		}
		for _, name := range off {
			args = append(args, "-fw_cfg", "name=opt/org.tianocore/"+name+",string=n")
		}
		return args, nil
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
