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

// exchangeFor is how long a client may take from its OFFER to its REQUEST. After that another NIC of its node may be
// offered the node's fixed address: firmware that failed on one NIC goes on with the next.
const exchangeFor = 10 * time.Second

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
	taken bool // and acknowledged
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

// kept returns the other client that was offered a less than keep ago, if there is one. A keep of exchangeFor is for
// the NICs of one node: an exchange that has come to its end is not waited for.
func (o *offers) kept(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration) (by fleet.MAC, kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.others(mac, a, now, keep)
}

// others is kept with the lock held.
func (o *offers) others(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration) (by fleet.MAC, kept bool) {
	other, reserved := o.byAddr[a]
	f := o.byMAC[other]
	return other, reserved && other != mac && now.Before(f.until.Add(keep-offerFor)) &&
		!(f.taken && keep == exchangeFor)
}

// reserve takes a for mac, unless another client was offered it less than keep ago. What mac had reserved is freed.
func (o *offers) reserve(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byMAC == nil {
		o.byMAC, o.byAddr, o.probed = map[fleet.MAC]offer{}, map[netip.Addr]fleet.MAC{}, map[fleet.MAC]bool{}
	}
	if _, kept := o.others(mac, a, now, keep); kept {
		return false
	}
	o.dropOther(mac, a)
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

// settle notes that an address was acknowledged to mac. Nobody else's reservation of it counts any more.
func (o *offers) settle(mac fleet.MAC, a netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropOther(mac, a)
	if f, ok := o.byMAC[mac]; ok && f.addr == a {
		f.taken = true
		o.byMAC[mac] = f
	}
}

// dropOther drops another client's reservation of an address, with the lock held.
func (o *offers) dropOther(mac fleet.MAC, a netip.Addr) {
	if other, taken := o.byAddr[a]; taken && other != mac {
		o.drop(other)
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
