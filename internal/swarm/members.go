package swarm

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
)

func (w *swarm) add(m *member) {
	m.at = len(w.all)
	w.all = append(w.all, m)
	w.members[m.addr] = m
	w.judge(m)
	if m.subnet.IsValid() {
		w.near[m.subnet] = append(w.near[m.subnet], m)
	}
	if m.place != "" {
		w.places[m.place] = append(w.places[m.place], m)
	}
}

func (w *swarm) remove(m *member) {
	last := w.all[len(w.all)-1]
	w.all[m.at], last.at = last, m.at
	w.all = w.all[:len(w.all)-1]
	delete(w.members, m.addr)
	if m.subnet.IsValid() {
		w.near[m.subnet] = without(w.near[m.subnet], m)
	}
	if m.place != "" {
		w.places[m.place] = without(w.places[m.place], m)
	}
	w.leaves(m, nil)
	if !m.shunned {
		w.count(m, -1)
	}
	for p := range w.pieces { // what only it had, or was sent, is unseeded again
		if w.pieces[p].held == 0 {
			w.pieces[p].lack(m.addr)
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

// haves takes what a member has. A node may let go of a piece.
func (w *swarm) haves(m *member, b Bitmap) {
	if !b.fits(len(w.pieces)) {
		return
	}
	for i, x := range b {
		for changed := x ^ m.have[i]; changed != 0 && !m.shunned; changed &= changed - 1 {
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

// count adds what a member has to what is held, or takes it away.
func (w *swarm) count(m *member, n int) {
	for p := range w.pieces {
		if m.have.Has(p) {
			w.pieces[p].held += n
		}
	}
}

// leaves takes which peers a member has left: all of them, whatever it said before.
func (w *swarm) leaves(m *member, left []netip.AddrPort) {
	left = left[:min(len(left), maxLeft)]
	if m.shunned { // perhaps it is the one that nobody reaches
		left = nil
	}
	old := m.left
	m.left = nil
	for _, a := range left {
		if a != m.addr && !slices.Contains(m.left, a) {
			m.left = append(m.left, a)
			w.leavers[a]++
		}
	}
	for _, a := range old {
		if w.leavers[a]--; w.leavers[a] == 0 {
			delete(w.leavers, a)
		}
	}
	for _, a := range slices.Concat(old, m.left) {
		if o := w.members[a]; o != nil {
			w.judge(o)
		}
	}
}

// shunnedBy is how many nodes must have left one until nothing is thought of what it has. In a small swarm one's
// word is enough. In a large one, where all links are full, some nodes are left by three at any time: with three in
// all swarms, a server of two hundred sent 6 % of the pieces twice.
func shunnedBy(nodes int) int {
	return max(min(1+nodes/8, 3), min(nodes/32, 8))
}

// judge decides whether a member is of help to others. Of one that takes pieces and breaks off what it sends, all
// that it was given is as good as not sent: the server sends it to another.
func (w *swarm) judge(m *member) {
	shunned := w.leavers[m.addr] >= shunnedBy(len(w.all))
	switch {
	case shunned == m.shunned:
	case shunned:
		w.count(m, -1)
		for p := range w.pieces {
			w.pieces[p].lack(m.addr)
		}
		w.first = 0
	default:
		w.count(m, 1)
	}
	m.shunned = shunned
}

// far is the share of peers that come from elsewhere when there are enough near by: without them each subnet would be a
// swarm of its own, and each would need its own copies from the server.
const far = 4 // one in four

// mayMeet tells whether two nodes may be peers: near ones share with those of their own place, or if none is
// declared of their own subnet.
func (m *member) mayMeet(o *member) bool {
	if !m.near && !o.near {
		return true
	}
	return m.place == o.place && (m.place != "" || m.subnet == o.subnet)
}

// choose names up to n peers of m by chance: same subnet and place first, then same subnet, then same place, then
// anybody.
func (w *swarm) choose(random *rand.Rand, m *member, n int) []netip.AddrPort {
	var out []netip.AddrPort
	pick := func(from []*member, most int, ok func(*member) bool) {
		// By chance, with a bound on the tries, so that a join costs the same in a swarm of any size.
		for tries := 4 * n; len(out) < most && len(from) > 0 && tries > 0; tries-- {
			c := from[random.IntN(len(from))]
			for range 3 { // of a few, the one that has the fewest peers
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
	local := n - n/far
	if m.near {
		local = n
	}
	all := func(*member) bool { return true }
	if m.subnet.IsValid() {
		if m.place != "" {
			pick(w.places[m.place], local, func(c *member) bool { return c.subnet == m.subnet })
		}
		pick(w.near[m.subnet], local, all)
	}
	if m.place != "" {
		pick(w.places[m.place], local, all)
	}
	if !m.near {
		pick(w.all, n, all)
	}
	return out
}
