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

// neighbour returns the MAC that the kernel's ARP table has for an address. It finds no machines behind a router. It is
// for proxyDHCP, where another server gives the address and this server may not have seen the request.
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

// proven reports whether the machine with this MAC is known to have this address: by an exchange within the given time,
// or by the ARP table if a packet of the machine was seen within that time. Since a DHCP packet is easily forged, the
// answer is no if the ARP table has another MAC for the address.
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
	// As proxy, or while this server gives no addresses, another server gave the address. With --dhcp off no DHCP
	// packet is seen, so only the ARP table can tell.
	return known && (a.dhcpOff() || fresh(a.seen.lastSeen(mac)))
}
