package boots

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// Bounds of what is remembered of DHCP.
const (
	ExchangeTime = time.Minute      // a script needs an exchange that is no older than this
	exchangeKept = 30 * time.Minute // /init may redeem its token this long after its own exchange
	maxExchanges = 16384            // MACs; those seen longest ago are dropped first
	maxAddresses = 4                // of one MAC
)

// exchanges remembers, in memory, which MAC was seen to have which address, and when. Tokens are bound to it. A flood
// of made-up MACs evicts older entries; memory stays bounded by maxExchanges.
type exchanges struct {
	mu     sync.Mutex
	byMAC  map[fleet.MAC]*list.Element // of *exchange
	recent list.List                   // latest first
}

type exchange struct {
	mac      fleet.MAC
	lastSeen time.Time // last packet of any kind
	addrs    []addressSeen
}

type addressSeen struct {
	addr netip.Addr
	at   time.Time
}

// note records a packet of mac, and the address that the packet shows, if any.
func (x *exchanges) note(mac fleet.MAC, addr netip.Addr, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byMAC == nil {
		x.byMAC = make(map[fleet.MAC]*list.Element)
	}
	el, known := x.byMAC[mac]
	if !known {
		el = x.recent.PushFront(&exchange{mac: mac})
		x.byMAC[mac] = el
		if x.recent.Len() > maxExchanges {
			oldest := x.recent.Back()
			delete(x.byMAC, oldest.Value.(*exchange).mac)
			x.recent.Remove(oldest)
		}
	}
	x.recent.MoveToFront(el)
	e := el.Value.(*exchange)
	e.lastSeen = now
	if addr.IsValid() {
		e.add(addr, now)
	}
}

func (e *exchange) add(addr netip.Addr, now time.Time) {
	for i := range e.addrs {
		if e.addrs[i].addr == addr {
			e.addrs[i].at = now
			return
		}
	}
	e.addrs = append(e.addrs, addressSeen{addr, now})
	if len(e.addrs) > maxAddresses {
		e.addrs = e.addrs[1:]
	}
}

// lastSeen returns when the last packet from mac arrived, or zero if none is remembered.
func (x *exchanges) lastSeen(mac fleet.MAC) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	el, ok := x.byMAC[mac]
	if !ok {
		return time.Time{}
	}
	return el.Value.(*exchange).lastSeen
}

// shown returns when an exchange last showed that mac has addr, or zero if none did.
func (x *exchanges) shown(mac fleet.MAC, addr netip.Addr) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	el, ok := x.byMAC[mac]
	if !ok {
		return time.Time{}
	}
	for _, a := range el.Value.(*exchange).addrs {
		if a.addr == addr {
			return a.at
		}
	}
	return time.Time{}
}
