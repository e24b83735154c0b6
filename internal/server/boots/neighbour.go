package boots

import (
	"bufio"
	"net/netip"
	"os"
	"strings"
	"time"

	"pando/internal/bootlog"
	"pando/internal/fleet"
)

// addresses knows which machine has which address.
type addresses struct {
	seen      *exchanges
	Neighbour func(netip.Addr) (fleet.MAC, bool)
	dhcpOff   func() bool
	now       func() time.Time
}

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

// proven reports whether it is known that the machine with this MAC has this address: from an exchange that was
// seen within max, in memory or on record, or from the ARP table for a machine that was heard of within max. A
// DHCP packet is easily forged; so whatever was seen, it is no proof where the ARP table knows another machine by
// this address.
func (a *addresses) proven(c *bootlog.Entry, mac fleet.MAC, addr netip.Addr, within time.Duration) bool {
	now := a.now()
	fresh := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) <= within }
	got, known := a.Neighbour(addr)
	if known && got != mac {
		return false
	}
	if fresh(a.seen.shown(mac, addr)) || c.Boot.Addr == addr && fresh(c.Boot.Exchanged) {
		return true
	}
	// As proxy, or after standing down, the answer of another server gave the address. Where DHCP is another's
	// business altogether, nothing of it is heard, and the ARP table is all there is.
	return known && (a.dhcpOff() || fresh(a.seen.lastSeen(mac)))
}
