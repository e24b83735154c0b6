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
	for p := range w.pieces { // pieces that only this node had or was sent must be sent again
		if w.pieces[p].held == 0 {
			w.pieces[p].removeCopy(m.addr)
		}
	}
	w.first = 0
}

// without removes m from a list, whose order it changes.
func without(list []*member, m *member) []*member {
	i := slices.Index(list, m)
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}

// setHave updates the pieces of a member, which may also have dropped some.
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

// count adds n to the number of holders of each piece that a member has.
func (w *swarm) count(m *member, n int) {
	for p := range w.pieces {
		if m.have.Has(p) {
			w.pieces[p].held += n
		}
	}
}

// setAvoided replaces the peers that a member avoids.
func (w *swarm) setAvoided(m *member, left []netip.AddrPort) {
	left = left[:min(len(left), maxAvoided)]
	if m.unreliable { // maybe no peer can reach this node
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

// unreliableAt returns how many members must avoid a node before its pieces no longer count.
func unreliableAt(nodes int) int { return min(1+nodes/8, 3) }

// updateReliability decides whether the pieces of a member count. A node whose uploads break off does not help, so the
// pieces that it was given are sent to another node.
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

// farShare: one peer in farShare is from another subnet or location. Otherwise each of these would need its own copies
// from the server.
const farShare = 4

// mayMeet reports whether two nodes may be peers. A local-only node shares within its location. Without a location, it
// shares within its subnet.
func (m *member) mayMeet(o *member) bool {
	if !m.localOnly && !o.localOnly {
		return true
	}
	return m.location == o.location && (m.location != "" || m.subnet == o.subnet)
}

// choose names up to n peers of m at random: first those in the same subnet and location, then in the same subnet, then
// in the same location, then any.
func (w *swarm) choose(random *rand.Rand, m *member, n int) []netip.AddrPort {
	var out []netip.AddrPort
	pick := func(from []*member, most int, ok func(*member) bool) {
		// The number of tries is bounded, so that an announcement costs the same in a swarm of any size.
		for tries := 4 * n; len(out) < most && len(from) > 0 && tries > 0; tries-- {
			c := from[random.IntN(len(from))]
			for range 3 { // of four random nodes, take the one with the fewest peers
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
