package dhcp

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/fleet"
)

// A forged packet is cheap, so an unsolicited packet only makes this server send a question. Another server counts once
// it has answered two questions, and as long as it keeps answering.
const (
	answersCount = 2              // questions answered before a server is believed
	urgentMost   = 8              // urgent questions in a row, before the usual interval applies again
	lookFirst    = 3              // questions after a start, at the urgent interval
	missedMost   = 4              // questions in a row without an answer before a server counts as gone
	maxOthers    = 16             // servers remembered
	maxQuestions = 16             // questions whose answers are still accepted
	overheardFor = 24 * time.Hour // how long a server that a client chose, but that never answered, stays listed
)

// pace says how often the server looks for other servers.
type pace struct {
	giving  time.Duration // interval while this server gives addresses
	stopped time.Duration // interval while another server makes this one stop; its end is noticed this soon
	beside  time.Duration // interval as proxy
	urgent  time.Duration // interval until a server that answered once is believed or gone
	hint    time.Duration // overheard packets cause at most one question in this time
	settle  time.Duration // after this time without another server's answer the server counts as settled
}

// usualPace settles after five seconds: a server that pings an address before it offers it answers after three.
func usualPace() pace {
	return pace{giving: time.Minute, stopped: 10 * time.Second, beside: 5 * time.Minute, urgent: time.Second,
		hint: 10 * time.Second, settle: 5 * time.Second}
}

// standing is what is known of other servers on one interface, and whether this server gives addresses there. It
// decides when to send a question and what an answer means; link sends the questions.
type standing struct {
	mode    Mode
	pace    pace
	others  []other
	asked   []question // latest last
	urgent  int        // urgent questions in a row
	since   time.Time  // since when this server gives addresses
	looks   int        // questions since then
	stopped netip.Addr // the other server because of which this one gives no addresses; zero: it gives them
	hinted  time.Time
	failed  time.Time // when sending a question failed last
}

// question is one search for other servers: a plain DISCOVER, and one that looks like firmware.
type question struct {
	ids [2]uint32 // transaction ids
	at  time.Time
}

// other is another server.
type other struct {
	Found
	answered int       // questions in a row whose answer says that this server has to stop
	latest   question  // the last one that it answered
	missed   int       // questions since then
	last     time.Time // of its last packet
}

// change is what a packet of another server changed.
type change int

const (
	nothing    change = iota
	isNew             // seen for the first time
	hasStopped        // this server stops giving addresses because of it
)

// settled reports whether this server gives addresses, and has looked for other servers often and long enough.
func (st *standing) settled(now time.Time) bool {
	return !st.stopped.IsValid() && st.looks >= lookFirst && now.Sub(st.since) >= st.pace.settle
}

// yields reports whether this server has to stop because of another one that gives addresses. Of two Pandos the settled
// one goes on; if both or none are settled, the one with the lower address. Both decide alike, so exactly one goes on.
func (st *standing) yields(f Found, own netip.Addr, now time.Time) bool {
	switch {
	case f.Proxy || st.mode != Own:
		return false
	case f.Pando == "":
		return true
	case (f.Pando == pandoSettled) != st.settled(now):
		return f.Pando == pandoSettled
	}
	return f.Server.Less(own)
}

// ask records a question that was sent.
func (st *standing) ask(q question) {
	if st.since.IsZero() {
		st.since = q.at
	}
	st.looks++
	st.asked = append(st.asked, q)
	st.asked = st.asked[max(0, len(st.asked)-maxQuestions):]
	st.urgent++
	if !st.pending() {
		st.urgent = 0
	}
	for i := range st.others {
		st.others[i].missed++
	}
}

// pending reports whether some server has answered a question, but fewer than answersCount.
func (st *standing) pending() bool {
	return slices.ContainsFunc(st.others, func(o other) bool { return o.answered > 0 && o.answered < answersCount })
}

// next returns when to send the next question.
func (st *standing) next() time.Time {
	if len(st.asked) == 0 || st.failed.After(st.asked[len(st.asked)-1].at) {
		return st.failed.Add(st.pace.hint)
	}
	last := st.asked[len(st.asked)-1].at
	switch {
	case st.looks < lookFirst, st.pending() && st.urgent < urgentMost:
		return last.Add(st.pace.urgent)
	case st.hinted.After(last):
		return st.hinted
	}
	return last.Add(st.every())
}

// every returns the time between two questions when nothing is urgent.
func (st *standing) every() time.Duration {
	switch {
	case st.mode != Own:
		return st.pace.beside
	case st.stopped.IsValid():
		return st.pace.stopped
	}
	return st.pace.giving
}

// answer records a server's answer. An answer to no question of this server may be forged: it only causes a question.
func (st *standing) answer(f Found, id uint32, own netip.Addr, now time.Time) change {
	i := slices.IndexFunc(st.asked, func(q question) bool { return q.ids[0] == id || q.ids[1] == id })
	if i < 0 {
		st.overheard(f, now)
		return nothing
	}
	q := st.asked[i]
	o, did := st.remember(f, now)
	if o == nil {
		return nothing
	}
	o.missed, o.last = 0, now
	again := o.latest == q
	o.latest = q
	switch {
	case !st.yields(f, own, now):
		o.answered = 0
	case !again:
		o.answered++
	}
	if o.answered >= answersCount && !st.stopped.IsValid() {
		st.stopped = f.Server
		return hasStopped
	}
	return did
}

// overheard records a packet of or for another server that answers no question of this one.
func (st *standing) overheard(f Found, now time.Time) {
	known := slices.ContainsFunc(st.others, func(o other) bool { return o.Server == f.Server && o.missed < missedMost })
	if !known && (len(st.asked) == 0 || now.Sub(st.asked[len(st.asked)-1].at) >= st.pace.hint) {
		st.hinted = now
	}
	// This is for display only: a server that answers known machines alone is found in no other way.
	if st.mode != Own && f.How == howRequest {
		if o, _ := st.remember(f, now); o != nil && o.How == howRequest {
			o.last = now
		}
	}
}

// remember finds a server in the list or adds it. If the list is full, servers that never answered are dropped; nil:
// there is no room.
func (st *standing) remember(f Found, now time.Time) (*other, change) {
	i := slices.IndexFunc(st.others, func(o other) bool { return o.Server == f.Server && o.Proxy == f.Proxy })
	if i >= 0 {
		if o := &st.others[i]; f.How != howRequest {
			o.Found = f
		}
		return &st.others[i], nothing
	}
	if len(st.others) >= maxOthers {
		st.others = slices.DeleteFunc(st.others, func(o other) bool {
			return o.How == howRequest || o.Server != st.stopped && o.missed > 0
		})
		if len(st.others) >= maxOthers {
			return nil, nothing
		}
	}
	st.others = append(st.others, other{Found: f, last: now})
	return &st.others[len(st.others)-1], isNew
}

// expire forgets servers that no longer answer. If this server had stopped because of one and gives addresses again
// now, it returns that one.
func (st *standing) expire(now time.Time) (gone netip.Addr) {
	silent := missedMost * st.every()
	st.others = slices.DeleteFunc(st.others, func(o other) bool {
		if o.How == howRequest {
			return now.Sub(o.last) >= overheardFor
		}
		return o.missed >= missedMost && now.Sub(o.last) >= silent
	})
	stops := func(o other) bool { return o.answered >= answersCount }
	if !st.stopped.IsValid() {
		return netip.Addr{}
	}
	if i := slices.IndexFunc(st.others, stops); i >= 0 {
		st.stopped = st.others[i].Server
		return netip.Addr{}
	}
	gone, st.stopped = st.stopped, netip.Addr{}
	st.since, st.looks = now, 0
	return gone
}

// found returns the servers, in the order of their addresses.
func (st *standing) found() []Found {
	out := make([]Found, 0, len(st.others))
	for _, o := range st.others {
		out = append(out, o.Found)
	}
	slices.SortFunc(out, func(a, b Found) int { return a.Server.Compare(b.Server) })
	return out
}

// chosen reads from a client's broadcast that it took another server's offer.
func chosen(r Request, own func(netip.Addr) bool) (Found, bool) {
	if r.Type != dhcpRequest || !r.Server.IsValid() || own(r.Server) || r.Relay.IsValid() ||
		r.MAC == (fleet.MAC{}) {
		return Found{}, false
	}
	return Found{Server: r.Server, Offers: r.Requested, How: howRequest}, true
}

// rank returns the vendor class by which this server answers another Pando's question.
func (st *standing) rank(now time.Time) string {
	if st.settled(now) {
		return pandoSettled
	}
	return pandoStarting
}
