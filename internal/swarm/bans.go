package swarm

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Limits of bans, so that false reports cannot fill the tracker's memory or its replies.
const (
	// BanFor is the time of a ban. Afterwards the address may belong to another or a repaired machine. A machine that
	// still sends wrong bytes is banned again.
	BanFor     = time.Hour
	maxReports = 8    // addresses that one address may report within BanFor
	maxBans    = 1024 // with more, the oldest ban ends
	maxTold    = 256  // bans in one reply: 42 bytes each, within MaxMessage
)

// bans are the addresses that no swarm accepts, and the reports of wrong bytes that lead to a ban.
type bans struct {
	reports   map[netip.Addr]corruptReports // by reported address
	reporters map[netip.Addr]reportsBy      // by reporting address
	// When an address left its last swarm. A node that leaves can still be reported.
	recent map[netip.Addr]time.Duration
	until  map[netip.Addr]time.Duration // by banned address
	order  []netip.Addr                 // in order of the bans
	ended  int                          // number of bans that have ended; they preceded order[0]
}

// corruptReports lists the nodes that got wrong bytes from one address.
type corruptReports struct {
	to    []netip.Addr
	since time.Duration
}

// reportsBy counts what one address has reported.
type reportsBy struct {
	count int
	since time.Duration
}

func newBans() bans {
	return bans{
		reports:   map[netip.Addr]corruptReports{},
		reporters: map[netip.Addr]reportsBy{},
		recent:    map[netip.Addr]time.Duration{},
		until:     map[netip.Addr]time.Duration{},
	}
}

func (b *bans) has(a netip.Addr) bool {
	_, ok := b.until[a]
	return ok
}

// left notes that the last node of an address has left its swarm.
func (b *bans) left(now time.Duration, a netip.Addr) {
	if len(b.recent) < maxMembers {
		b.recent[a] = now
	}
}

// report counts a report, and tells whether the reported address is now banned.
func (b *bans) report(now time.Duration, from, accused netip.Addr, enough int) bool {
	p := b.reports[accused]
	if b.has(from) || b.has(accused) || from == accused || slices.Contains(p.to, from) || !b.count(now, from) {
		return false
	}
	if len(p.to) == 0 {
		p.since = now
	}
	p.to = append(p.to, from)
	b.reports[accused] = p
	if len(p.to) < enough {
		return false
	}
	delete(b.reports, accused)
	b.until[accused] = now + BanFor
	if b.order = append(b.order, accused); len(b.order) > maxBans {
		b.lift()
	}
	return true
}

// count counts one more report by an address, and tells whether it is within the limit.
func (b *bans) count(now time.Duration, from netip.Addr) bool {
	w := b.reporters[from]
	if w.count >= maxReports || w.count == 0 && len(b.reporters) >= maxMembers {
		return false
	}
	if w.count == 0 {
		w.since = now
	}
	w.count++
	b.reporters[from] = w
	return true
}

// lift ends the oldest ban.
func (b *bans) lift() {
	delete(b.until, b.order[0])
	b.order = b.order[1:]
	b.ended++
}

// expire ends bans and forgets reports that are older than BanFor.
func (b *bans) expire(now time.Duration) {
	for len(b.order) > 0 && now >= b.until[b.order[0]] {
		b.lift()
	}
	old := func(since time.Duration) bool { return now >= since+BanFor }
	maps.DeleteFunc(b.reports, func(_ netip.Addr, p corruptReports) bool { return old(p.since) })
	maps.DeleteFunc(b.reporters, func(_ netip.Addr, w reportsBy) bool { return old(w.since) })
	maps.DeleteFunc(b.recent, func(_ netip.Addr, since time.Duration) bool { return old(since) })
}

// after returns the bans that follow the first told ones, at most maxTold. then is the new value of told.
func (b *bans) after(told int) (next []netip.Addr, then int) {
	at := min(max(told-b.ended, 0), len(b.order))
	next = slices.Clone(b.order[at:min(at+maxTold, len(b.order))])
	return next, b.ended + at + len(next)
}

// ReportCorrupt records a report of wrong bytes, and tells whether the reported address is now banned. A reporter
// counts once. A banned reporter, or one with too many reports, is ignored. A node that only joins may report too. A
// report about an address that was in no swarm lately is ignored, because the tracker never names such an address.
func (t *Tracker) ReportCorrupt(from, accused netip.Addr) bool {
	if _, lately := t.bans.recent[accused]; !lately && !t.Has(accused) {
		return false
	}
	if !t.bans.report(t.now, from, accused, t.o.BanReports) {
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

// bannedSince returns the bans that a member was not told yet, as many as fit into a reply.
func (t *Tracker) bannedSince(m *member) (banned []netip.Addr) {
	banned, m.bansTold = t.bans.after(m.bansTold)
	return banned
}
