package boot

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	"pando/internal/fleet"
)

// nic is a wired network adapter. Its index is what counts: udev of the image renames it while it is up.
type nic struct {
	Index  int
	Name   string
	MAC    fleet.MAC
	Driver string
}

// arpEther is ARPHRD_ETHER of /sys/class/net/*/type.
const arpEther = "1"

// adapters lists the Ethernet adapters that are devices: no bridges, tunnels, dummies.
func adapters(sys string) []nic {
	dirs, _ := filepath.Glob(filepath.Join(sys, "class/net/*"))
	var out []nic
	for _, d := range dirs {
		if sysValue(d, "type") != arpEther || !exists(filepath.Join(d, "device")) {
			continue
		}
		n := nic{Name: filepath.Base(d)}
		n.Index, _ = strconv.Atoi(sysValue(d, "ifindex"))
		n.MAC, _ = fleet.ParseMAC(sysValue(d, "address"))
		if driver, err := os.Readlink(filepath.Join(d, "device/driver")); err == nil {
			n.Driver = filepath.Base(driver)
		}
		if n.Index > 0 && !n.MAC.IsZero() {
			out = append(out, n)
		}
	}
	return out
}

// pick returns the adapter with the MAC that booted, else all. Two can share it when one is
// the virtual function below a paravirtual one; then both are tried.
func pick(all []nic, mac fleet.MAC) []nic {
	var out []nic
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

// carrier reports whether the adapter has a link. It has to be up for that.
func (n nic) carrier(sys string) bool {
	return sysValue(filepath.Join(sys, "class/net", n.Name), "carrier") == "1"
}

func (n nic) hardware() net.HardwareAddr { return net.HardwareAddr(n.MAC[:]) }
