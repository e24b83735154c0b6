package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// offerFor is how long an offered address is kept for its client. A boot makes three exchanges (firmware,
// iPXE, /init), some seconds apart, and is offered the same address in each without a new probe.
const offerFor = time.Minute

// offers are the reservations: addresses that were offered and perhaps not yet taken. They live in memory; a
// client whose offer a restart forgot asks again.
type offers struct {
	mu     sync.Mutex
	byMAC  map[fleet.MAC]offer
	byAddr map[netip.Addr]fleet.MAC
	probed map[fleet.MAC]bool // the reservation's probe came back clean
}

type offer struct {
	addr  netip.Addr
	until time.Time
}

// get returns the address reserved for a MAC, and whether it was probed.
func (o *offers) get(mac fleet.MAC, now time.Time) (a netip.Addr, probed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, ok := o.byMAC[mac]
	if !ok || !now.Before(f.until) {
		return netip.Addr{}, false
	}
	return f.addr, o.probed[mac]
}

// reserve takes a for mac, unless another client has it reserved. What mac had reserved is freed.
func (o *offers) reserve(mac fleet.MAC, a netip.Addr, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byMAC == nil {
		o.byMAC, o.byAddr, o.probed = map[fleet.MAC]offer{}, map[netip.Addr]fleet.MAC{}, map[fleet.MAC]bool{}
	}
	if other, taken := o.byAddr[a]; taken && other != mac && now.Before(o.byMAC[other].until) {
		return false
	} else if taken && other != mac {
		o.drop(other)
	}
	if o.byMAC[mac].addr != a {
		o.drop(mac)
	}
	o.byMAC[mac] = offer{addr: a, until: now.Add(offerFor)}
	o.byAddr[a] = mac
	return true
}

// clean records that the probe of mac's reservation was not answered.
func (o *offers) clean(mac fleet.MAC) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.byMAC[mac]; ok {
		o.probed[mac] = true
	}
}

// free drops the reservation of a MAC.
func (o *offers) free(mac fleet.MAC) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(mac)
}

// expire drops what nobody took, so that a flood of made-up MACs does not stay.
func (o *offers) expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for mac, f := range o.byMAC {
		if !now.Before(f.until) {
			o.drop(mac)
		}
	}
}

// drop is free with the lock held.
func (o *offers) drop(mac fleet.MAC) {
	if f, ok := o.byMAC[mac]; ok {
		delete(o.byAddr, f.addr)
	}
	delete(o.byMAC, mac)
	delete(o.probed, mac)
}
