package boots

import (
	"bufio"
	"net/netip"
	"os"
	"strings"

	"pando/internal/fleet"
)

// neighbour asks the kernel's ARP table which MAC has an address on a segment of this machine. It finds nothing
// for machines behind a router. It is for proxyDHCP, where another server's answer gives the address
// and the request may have gone past us.
func neighbour(addr netip.Addr) (fleet.MAC, bool) {
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return fleet.MAC{}, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		// IP address, HW type, flags, HW address, mask, device
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || fields[0] != addr.String() {
			continue
		}
		mac, err := fleet.ParseMAC(fields[3])
		return mac, err == nil && !mac.IsZero()
	}
	return fleet.MAC{}, false
}
