package dhcp

import (
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// offerFor is how long an offered address is reserved for its client. A boot makes three exchanges (firmware, iPXE,
// /init), some seconds apart, and is offered the same address in each without a new probe.
const offerFor = time.Minute

// exchangeFor is how long a client may take from its OFFER to its REQUEST. After that another NIC of its node may be
// offered the node's fixed address: firmware that failed on one NIC goes on with the next. An offer to an unknown
// machine is kept no longer than this.
const exchangeFor = 10 * time.Second

// maxAvoided bounds the remembered pairs of a client and an address that it declined.
const maxAvoided = 1024

// offers are the reservations: addresses that were offered, taken by their clients or not. They are in memory only;
// after a restart a client sends a new DISCOVER.
type offers struct {
	mu     sync.Mutex
	byMAC  map[fleet.MAC]offer
	byAddr map[netip.Addr]fleet.MAC
	probed map[fleet.MAC]bool // the probe of the reserved address was not answered
	avoid  map[fleet.MAC]offer
}

type offer struct {
	addr    netip.Addr
	at      time.Time
	until   time.Time
	taken   bool // the client requested the address, and it was acknowledged
	unknown bool // the client is an unknown machine
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

// kept returns the other client that was offered a less than keep ago, if there is one. Between NICs of one node keep
// is exchangeFor: an older exchange of another NIC has ended.
func (o *offers) kept(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration) (by fleet.MAC, kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.others(mac, a, now, keep)
}

// others is kept for callers that hold the lock.
func (o *offers) others(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration) (by fleet.MAC, kept bool) {
	other, reserved := o.byAddr[a]
	f := o.byMAC[other]
	return other, reserved && other != mac && now.Before(f.until) && now.Before(f.at.Add(keep)) &&
		!(f.taken && keep == exchangeFor)
}

// reserve reserves a for mac, unless another client was offered it less than keep ago. It frees what mac had reserved.
func (o *offers) reserve(mac fleet.MAC, a netip.Addr, now time.Time, keep time.Duration, unknown bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byMAC == nil {
		o.byMAC, o.byAddr, o.probed = map[fleet.MAC]offer{}, map[netip.Addr]fleet.MAC{}, map[fleet.MAC]bool{}
	}
	if _, kept := o.others(mac, a, now, keep); kept {
		return false
	}
	o.dropOther(mac, a)
	f := o.byMAC[mac]
	if f.addr != a {
		o.drop(mac)
		f = offer{}
	}
	until := now.Add(offerFor)
	if unknown && !f.taken {
		until = now.Add(exchangeFor)
	}
	o.byMAC[mac] = offer{addr: a, at: now, until: until, taken: f.taken, unknown: unknown}
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

// settle records that an address was acknowledged to mac. Another client's reservation of the address no longer counts.
func (o *offers) settle(mac fleet.MAC, a netip.Addr, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropOther(mac, a)
	if f, ok := o.byMAC[mac]; ok && f.addr == a {
		f.taken, f.until = true, now.Add(offerFor)
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

// expire drops reservations that have run out, so that a flood of made-up MACs does not fill the memory.
func (o *offers) expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for mac, f := range o.byMAC {
		if !now.Before(f.until) {
			o.drop(mac)
		}
	}
	for mac, f := range o.avoid {
		if !now.Before(f.until) {
			delete(o.avoid, mac)
		}
	}
}

// waiting returns how many addresses of a subnet were offered to unknown machines that have not taken them yet.
func (o *offers) waiting(s Subnet, now time.Time) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.byMAC {
		if f.unknown && !f.taken && now.Before(f.until) && s.inRange(f.addr) {
			n++
		}
	}
	return n
}

// refuse keeps an address from being offered to a client that declined it. Other clients may get it.
func (o *offers) refuse(mac fleet.MAC, a netip.Addr, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.avoid == nil {
		o.avoid = map[fleet.MAC]offer{}
	}
	if _, has := o.avoid[mac]; has || len(o.avoid) < maxAvoided {
		o.avoid[mac] = offer{addr: a, until: until}
	}
}

// refused reports whether a client declined an address.
func (o *offers) refused(mac fleet.MAC, a netip.Addr, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, has := o.avoid[mac]
	return has && f.addr == a && now.Before(f.until)
}

// drop is free for callers that hold the lock.
func (o *offers) drop(mac fleet.MAC) {
	if f, ok := o.byMAC[mac]; ok {
		delete(o.byAddr, f.addr)
	}
	delete(o.byMAC, mac)
	delete(o.probed, mac)
}
