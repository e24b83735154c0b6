package dhcp

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"net/netip"

	"pando/internal/fleet"
)

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// lastAddr returns the broadcast address of an IPv4 prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	return address(number(p.Masked().Addr()) | 1<<(32-p.Bits()) - 1)
}

// ProposeRange returns the dynamic range to propose for a network that has no DHCP server: its upper half without the
// last tenth, since people give servers low addresses and routers the first or the last one. The range leaves out own,
// the server's address.
func ProposeRange(p netip.Prefix, own netip.Addr) (first, last netip.Addr, err error) {
	if !p.Addr().Is4() || p.Bits() > 28 {
		return first, last, fmt.Errorf("propose a DHCP range in %s: too few addresses; name a range", p)
	}
	base, size := number(p.Masked().Addr()), uint32(1)<<(32-p.Bits())
	size = min(size, 1<<16)
	lo, hi := base+size/2, base+size-2-size/10
	if n := number(own); own.Is4() && lo <= n && n <= hi { // own splits the range: take the longer part
		if n-lo > hi-n {
			hi = n - 1
		} else {
			lo = n + 1
		}
	}
	return address(lo), address(hi), nil
}

// maxCandidates bounds the work for one packet when a large range is full.
const maxCandidates = 4096

// candidates are the addresses of the dynamic range in the order in which they are tried for a MAC. The first is a hash
// of the MAC, so that a node keeps its address even when the records are lost; the others follow it.
func (s Subnet) candidates(mac fleet.MAC) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if !s.First.IsValid() {
			return
		}
		first := number(s.First)
		size := number(s.Last) - first + 1
		h := fnv.New32a()
		_, _ = h.Write(mac[:])
		for i := range min(size, maxCandidates) {
			if !yield(address(first + (h.Sum32()+i)%size)) {
				return
			}
		}
	}
}
