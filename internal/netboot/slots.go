package netboot

import "time"

// Links are the rates that decide how many nodes load K at the same time, in bytes a second.
type Links struct {
	Server int64 // what the server can send
	Node   int64 // what a node can receive
}

const (
	// leastK is about what a node loads at least: kernel and agent, and the drivers for its own NIC, of Debian 12
	// and 13. The first nodes that wait are told by it when their turn comes. Who comes too early is kept on the
	// line; who comes too late leaves the link idle.
	leastK = 12_000_000
	// fewest are the slots that there are at least: while one node's firmware thinks, the link is the other's.
	fewest = 2
	// most are the slots that there are at most.
	most = 1024
	// turnaround is how long a node takes, at most, from its script to the first byte of its kernel: it connects
	// and asks.
	turnaround = 50 * time.Millisecond
)

// Slots is how many nodes load at the same time: twice as many as fill the server's link, so that a slow one leaves no
// gap. More are not needed: the next node's request is held open when a slot becomes free (Queue.Hold), and a slot is
// free before its load is over (Rest).
func (l Links) Slots() int {
	return min(max(fewest, int(2*float64(l.Server)/float64(l.Node)+0.5)), most)
}

// Rest is how many bytes at the end of a load need no slot: what a node receives while the next one starts. Without it,
// loads that begin together end together and leave the link idle.
func (l Links) Rest() int64 { return int64(l.share() * turnaround.Seconds()) }

// share is what a node gets while all slots are taken, in bytes a second.
func (l Links) share() float64 { return min(float64(l.Server)/float64(l.Slots()), float64(l.Node)) }

// Load is how long a node is expected to load while all slots are taken.
func (l Links) Load() time.Duration {
	return time.Duration(leastK / l.share() * float64(time.Second))
}

// Bounds of how long a node that waits sleeps before it asks again.
const (
	shortestSleep = time.Second
	longestSleep  = 10 * time.Second
	nextSleep     = 2 * time.Second // of those who are next
)

// pause is how long a node sleeps whose turn is expected then: half of that, for the loads may go faster than the
// first guess, and not so long that the place on its screen is old. For each slot there is one who is next: all
// loads may end at the same moment.
func pause(expect time.Duration, next bool) time.Duration {
	longest := longestSleep
	if next {
		longest = nextSleep
	}
	return min(max(shortestSleep, (expect/2).Truncate(time.Second)), longest)
}
