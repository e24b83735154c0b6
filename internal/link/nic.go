package link

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	"pando/internal/fleet"
	"pando/internal/hardware"
)

// NIC is a wired network adapter. Index identifies it: the image's udev renames the adapter while it is up.
type NIC struct {
	Index  int
	Name   string
	MAC    fleet.MAC
	Driver string
}

// arpEther is ARPHRD_ETHER of /sys/class/net/*/type.
const arpEther = "1"

// Adapters returns the Ethernet adapters that are devices: no bridges, tunnels or dummies.
func Adapters(sys string) []NIC {
	dirs, _ := filepath.Glob(filepath.Join(sys, "class/net/*"))
	var out []NIC
	for _, d := range dirs {
		if hardware.SysValue(d, "type") != arpEther || !hardware.Exists(filepath.Join(d, "device")) {
			continue
		}
		n := NIC{Name: filepath.Base(d)}
		n.Index, _ = strconv.Atoi(hardware.SysValue(d, "ifindex"))
		n.MAC, _ = fleet.ParseMAC(hardware.SysValue(d, "address"))
		if driver, err := os.Readlink(filepath.Join(d, "device/driver")); err == nil {
			n.Driver = filepath.Base(driver)
		}
		if n.Index > 0 && !n.MAC.IsZero() {
			out = append(out, n)
		}
	}
	return out
}

// Pick returns the adapters with the MAC that booted, or all if there is none. Two adapters share a MAC if one is the
// virtual function of a paravirtual one; then both are tried.
func Pick(all []NIC, mac fleet.MAC) []NIC {
	var out []NIC
	for _, n := range all {
		if n.MAC == mac {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// carrier reports whether the adapter has a link. The adapter has to be up for that.
func (n NIC) carrier(sys string) bool {
	return hardware.SysValue(filepath.Join(sys, "class/net", n.Name), "carrier") == "1"
}

// Hardware returns the MAC in the form of package net.
func (n NIC) Hardware() net.HardwareAddr { return net.HardwareAddr(n.MAC[:]) }
