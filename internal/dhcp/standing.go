package dhcp

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/fleet"
)

// A forged packet is cheap, so what is overheard never decides: it only has us ask. Another server counts when it
// answered two questions of ours, and for as long as it goes on answering them.
const (
	answersCount = 2                // questions answered until a server is believed
	urgentEvery  = time.Second      // between questions until a server that answered once is believed or gone
	urgentMost   = 8                // urgent questions in a row; then the usual pace again
	hintEvery    = 10 * time.Second // at most one question for what was overheard in this time
	lookFirst    = 3                // questions of the first look, urgentEvery apart
	settleAfter  = 5 * time.Second  // a server that pings an address first answers after three seconds
	missedMost   = 4                // questions in a row that a server leaves unanswered until it is gone
	maxOthers    = 16               // servers remembered
	maxQuestions = 16               // questions whose answers are still taken
	overheardFor = 24 * time.Hour   // a server that clients chose and that never answered us
)

// pace is how often is asked.
type pace struct {
	giving  time.Duration // while addresses are given here
	stopped time.Duration // while another server keeps us from it: also how soon its end is noticed
	beside  time.Duration // as proxy
}

func usualPace() pace {
	return pace{giving: time.Minute, stopped: 10 * time.Second, beside: 5 * time.Minute}
}

// standing is what is known of other servers on one interface, and whether addresses are given there because of it.
// It decides; link asks.
type standing struct {
	mode    Mode
	pace    pace
	others  []other
	asked   []question // latest last
	urgent  int        // urgent questions in a row
	since   time.Time  // addresses are given since then, or again
	looks   int        // questions since then
	stopped netip.Addr // the server because of which none are given; zero: they are
	hinted  time.Time
	failed  time.Time // when a question could not be sent last
}

// question is one look: a DISCOVER for each of the classes.
type question struct {
	ids [2]uint32 // transaction ids
	at  time.Time
}

// other is another server.
type other struct {
	Found
	answered int       // questions in a row whose answer says that we have to stop
	latest   question  // answered
	missed   int       // asked since
	last     time.Time // heard
}

// change is what a server did to the standing.
type change int

const (
	nothing    change = iota
	isNew             // seen for the first time
	hasStopped        // because of it no addresses are given from now on
)

// settled reports whether we give addresses and have looked around since.
func (st *standing) settled(now time.Time) bool {
	return !st.stopped.IsValid() && st.looks >= lookFirst && now.Sub(st.since) >= settleAfter
}

// yields reports whether we have to stop because of a server that gives addresses. Of two Pandos the one that has
// looked around first goes on, else that with the lower address: both see the same, so exactly one stays.
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

// ask notes a question that was sent.
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

// pending reports whether a server answered that is not believed yet.
func (st *standing) pending() bool {
	return slices.ContainsFunc(st.others, func(o other) bool { return o.answered > 0 && o.answered < answersCount })
}

// next is when to ask again.
func (st *standing) next() time.Time {
	if len(st.asked) == 0 || st.failed.After(st.asked[len(st.asked)-1].at) {
		return st.failed.Add(hintEvery)
	}
	last := st.asked[len(st.asked)-1].at
	switch {
	case st.looks < lookFirst, st.pending() && st.urgent < urgentMost:
		return last.Add(urgentEvery)
	case st.hinted.After(last):
		return st.hinted
	}
	return last.Add(st.every())
}

// every is the time between two questions when nothing is urgent.
func (st *standing) every() time.Duration {
	switch {
	case st.mode != Own:
		return st.pace.beside
	case st.stopped.IsValid():
		return st.pace.stopped
	}
	return st.pace.giving
}

// answer takes in an answer. One to no question of ours is what anybody may have sent: it has us ask.
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

// overheard takes in what a packet says that answers no question of ours.
func (st *standing) overheard(f Found, now time.Time) {
	known := slices.ContainsFunc(st.others, func(o other) bool { return o.Server == f.Server && o.missed < missedMost })
	if !known && (len(st.asked) == 0 || now.Sub(st.asked[len(st.asked)-1].at) >= hintEvery) {
		st.hinted = now
	}
	if st.mode != Own && f.How == howRequest { // nothing depends on it, and it may be a server that answers nodes only
		if o, _ := st.remember(f, now); o != nil && o.How == howRequest {
			o.last = now
		}
	}
}

// remember finds a server, or adds it. One that never answered makes room. It returns nil where there is none.
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

// expire forgets servers that are gone. It returns the one because of which no addresses were given, if they are given
// again now.
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

// found are the servers, in the order of their addresses.
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

// rank is what a Pando that gives addresses says of itself when another one asks.
func (st *standing) rank(now time.Time) string {
	if st.settled(now) {
		return pandoSettled
	}
	return pandoStarting
}
