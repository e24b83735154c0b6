package swarm

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Bounds of bans, so that nobody can fill the tracker's memory, or its answers, with accusations.
const (
	// by then the address may be another machine's, or that is repaired; one that still sends wrong bytes is banned
	// again
	BanFor     = time.Hour
	accuseMost = 8    // addresses that one address accuses in that time
	maxBans    = 1024 // with more, the oldest ends
	maxTold    = 256  // bans of an answer: 42 bytes each at most, in one of maxMessage
)

// bans are addresses whose nodes are in no swarm, and the reports of wrong bytes that lead to that.
type bans struct {
	proofs map[netip.Addr]proofs // of the accused
	words  map[netip.Addr]words  // of accusers
	// who was in a swarm lately, since when it is not: one that lies does not get away by leaving first
	gone  map[netip.Addr]time.Duration
	until map[netip.Addr]time.Duration // of the banned
	order []netip.Addr                 // in which they were banned
	ended int                          // how many stood there before them
}

// proofs are who got wrong bytes from one address.
type proofs struct {
	to    []netip.Addr
	since time.Duration
}

// words are what one address said of others.
type words struct {
	count int
	since time.Duration
}

func newBans() bans {
	return bans{
		proofs: map[netip.Addr]proofs{},
		words:  map[netip.Addr]words{},
		gone:   map[netip.Addr]time.Duration{},
		until:  map[netip.Addr]time.Duration{},
	}
}

func (b *bans) has(a netip.Addr) bool {
	_, ok := b.until[a]
	return ok
}

// left notes an address whose last node is in no swarm any more.
func (b *bans) left(now time.Duration, a netip.Addr) {
	if len(b.gone) < maxMembers {
		b.gone[a] = now
	}
}

// accuse takes a report, and tells whether the accused is banned with it because there are enough.
func (b *bans) accuse(now time.Duration, from, accused netip.Addr, enough int) bool {
	p := b.proofs[accused]
	if b.has(from) || b.has(accused) || from == accused || slices.Contains(p.to, from) || !b.heed(now, from) {
		return false
	}
	if len(p.to) == 0 {
		p.since = now
	}
	p.to = append(p.to, from)
	b.proofs[accused] = p
	if len(p.to) < enough {
		return false
	}
	delete(b.proofs, accused)
	b.until[accused] = now + BanFor
	if b.order = append(b.order, accused); len(b.order) > maxBans {
		b.lift()
	}
	return true
}

// heed counts the word of an accuser, if it may still accuse somebody.
func (b *bans) heed(now time.Duration, from netip.Addr) bool {
	w := b.words[from]
	if w.count >= accuseMost || w.count == 0 && len(b.words) >= maxMembers {
		return false
	}
	if w.count == 0 {
		w.since = now
	}
	w.count++
	b.words[from] = w
	return true
}

// lift ends the oldest ban.
func (b *bans) lift() {
	delete(b.until, b.order[0])
	b.order = b.order[1:]
	b.ended++
}

// expire forgets what is too long ago.
func (b *bans) expire(now time.Duration) {
	for len(b.order) > 0 && now >= b.until[b.order[0]] {
		b.lift()
	}
	old := func(since time.Duration) bool { return now >= since+BanFor }
	maps.DeleteFunc(b.proofs, func(_ netip.Addr, p proofs) bool { return old(p.since) })
	maps.DeleteFunc(b.words, func(_ netip.Addr, w words) bool { return old(w.since) })
	maps.DeleteFunc(b.gone, func(_ netip.Addr, since time.Duration) bool { return old(since) })
}

// after are the next bans for one that was told of so many, with those that have ended, and how many that makes.
func (b *bans) after(told int) (next []netip.Addr, then int) {
	at := min(max(told-b.ended, 0), len(b.order))
	next = slices.Clone(b.order[at:min(at+maxTold, len(b.order))])
	return next, b.ended + at + len(next)
}

// Wrong takes a report of wrong bytes. It tells whether the accused is banned for all with it. One node's word
// counts once, that of a banned one not at all, and who accuses many is not heard any more. An accuser need not be
// in a swarm: boots that start accuse those that they were named. An accused who was in none lately is named to
// nobody, and each node leaves it by itself.
func (t *Tracker) Wrong(from, accused netip.Addr) bool {
	if _, lately := t.bans.gone[accused]; !lately && !t.Has(accused) {
		return false
	}
	if !t.bans.accuse(t.now, from, accused, t.o.Proofs) {
		return false
	}
	for _, w := range t.swarms {
		for i := len(w.all) - 1; i >= 0; i-- {
			if w.all[i].addr.Addr() == accused {
				t.drop(w, w.all[i])
			}
		}
	}
	return true
}

// bannedSince are those banned for all that a member was not told of, as many as an answer has room for.
func (t *Tracker) bannedSince(m *member) (banned []netip.Addr) {
	banned, m.bans = t.bans.after(m.bans)
	return banned
}
