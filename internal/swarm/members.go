package swarm

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
)

func (w *swarm) add(m *member) {
	m.index = len(w.all)
	w.all = append(w.all, m)
	w.members[m.addr] = m
	w.updateReliability(m)
	if m.subnet.IsValid() {
		w.bySubnet[m.subnet] = append(w.bySubnet[m.subnet], m)
	}
	if m.location != "" {
		w.byLocation[m.location] = append(w.byLocation[m.location], m)
	}
}

func (w *swarm) remove(m *member) {
	last := w.all[len(w.all)-1]
	w.all[m.index], last.index = last, m.index
	w.all = w.all[:len(w.all)-1]
	delete(w.members, m.addr)
	if m.subnet.IsValid() {
		w.bySubnet[m.subnet] = without(w.bySubnet[m.subnet], m)
	}
	if m.location != "" {
		w.byLocation[m.location] = without(w.byLocation[m.location], m)
	}
	w.setAvoided(m, nil)
	if !m.unreliable {
		w.count(m, -1)
	}
	for p := range w.pieces { // what only this node had or was sent is to be sent again
		if w.pieces[p].held == 0 {
			w.pieces[p].removeCopy(m.addr)
		}
	}
	w.first = 0
}

// without removes m; order does not matter.
func without(list []*member, m *member) []*member {
	i := slices.Index(list, m)
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}

// setHave takes what a member has; it may have dropped pieces.
func (w *swarm) setHave(m *member, b Bitmap) {
	if !b.fits(len(w.pieces)) {
		return
	}
	for i, x := range b {
		for changed := x ^ m.have[i]; changed != 0 && !m.unreliable; changed &= changed - 1 {
			p := i*8 + bits.TrailingZeros8(changed)
			if x>>(p&7)&1 == 1 {
				w.pieces[p].held++
				continue
			}
			w.pieces[p].held--
			w.first = min(w.first, p)
		}
		m.have[i] = x
	}
}

// count adds the pieces of a member to the holders of each, or subtracts them.
func (w *swarm) count(m *member, n int) {
	for p := range w.pieces {
		if m.have.Has(p) {
			w.pieces[p].held += n
		}
	}
}

// setAvoided takes the peers that a member avoids, in place of those that it named before.
func (w *swarm) setAvoided(m *member, left []netip.AddrPort) {
	left = left[:min(len(left), maxAvoided)]
	if m.unreliable { // perhaps nobody reaches this node itself
		left = nil
	}
	old := m.avoids
	m.avoids = nil
	for _, a := range left {
		if a != m.addr && !slices.Contains(m.avoids, a) {
			m.avoids = append(m.avoids, a)
			w.avoidedBy[a]++
		}
	}
	for _, a := range old {
		if w.avoidedBy[a]--; w.avoidedBy[a] == 0 {
			delete(w.avoidedBy, a)
		}
	}
	for _, a := range slices.Concat(old, m.avoids) {
		if o := w.members[a]; o != nil {
			w.updateReliability(o)
		}
	}
}

// unreliableAt is how many nodes must avoid one before its pieces count for nothing. In a small swarm one is enough.
func unreliableAt(nodes int) int { return min(1+nodes/8, 3) }

// updateReliability decides whether the pieces of a member count. A node that breaks off what it sends is no help, so
// what it was given is sent to another.
func (w *swarm) updateReliability(m *member) {
	unreliable := w.avoidedBy[m.addr] >= unreliableAt(len(w.all))
	switch {
	case unreliable == m.unreliable:
	case unreliable:
		w.count(m, -1)
		for p := range w.pieces {
			w.pieces[p].removeCopy(m.addr)
		}
		w.first = 0
	default:
		w.count(m, 1)
	}
	m.unreliable = unreliable
}

// farShare is the share of peers from other subnets and locations. Without them each would need copies of its own.
const farShare = 4 // one in four

// mayMeet reports whether two nodes may be peers. Local ones share within their location, or without one within their
// subnet.
func (m *member) mayMeet(o *member) bool {
	if !m.localOnly && !o.localOnly {
		return true
	}
	return m.location == o.location && (m.location != "" || m.subnet == o.subnet)
}

// choose names up to n peers of m at random: same subnet and location first, then same subnet, then same location,
// then any.
func (w *swarm) choose(random *rand.Rand, m *member, n int) []netip.AddrPort {
	var out []netip.AddrPort
	pick := func(from []*member, most int, ok func(*member) bool) {
		// The number of tries is bounded, so that an announcement costs the same in a swarm of any size.
		for tries := 4 * n; len(out) < most && len(from) > 0 && tries > 0; tries-- {
			c := from[random.IntN(len(from))]
			for range 3 { // of a few, the one with the fewest peers
				if d := from[random.IntN(len(from))]; d.degree < c.degree {
					c = d
				}
			}
			if c != m && ok(c) && m.mayMeet(c) && !slices.Contains(out, c.addr) {
				out = append(out, c.addr)
				c.degree++
				m.degree++
			}
		}
	}
	local := n - n/farShare
	if m.localOnly {
		local = n
	}
	all := func(*member) bool { return true }
	if m.subnet.IsValid() {
		if m.location != "" {
			pick(w.byLocation[m.location], local, func(c *member) bool { return c.subnet == m.subnet })
		}
		pick(w.bySubnet[m.subnet], local, all)
	}
	if m.location != "" {
		pick(w.byLocation[m.location], local, all)
	}
	if !m.localOnly {
		pick(w.all, n, all)
	}
	return out
}
