package netboot

import "time"

// Links are the rates that decide how many nodes load kernel+initrd at the same time, in bytes a second.
type Links struct {
	Server int64 // what the server can send
	Node   int64 // what a node can receive
	Passed bool  // nodes pass kernel+initrd on
}

const (
	// leastK is the smallest expected load in bytes: kernel, agent and the drivers for one NIC, of Debian 12 and 13.
	// The first wait times follow from it. Too low a value costs a held request, too high a value leaves the link
	// idle.
	leastK = 12_000_000
	// fewest is the smallest number of slots. With two slots the link stays busy while one node's firmware prepares
	// its next request.
	fewest = 2
	// most is the largest number of slots.
	most = 1024
	// turnaround is how long a node takes, at most, from its script to the first byte of its kernel: it connects and
	// sends a request.
	turnaround = 50 * time.Millisecond
)

// Slots is how many nodes load at the same time: twice as many as fill the server's link, so that a slow one leaves no
// gap. Where nodes pass kernel+initrd on, only as many load at the same time as fill the link: the sooner the first
// node has all, the sooner it serves others.
func (l Links) Slots() int {
	if l.Passed {
		return min(max(1, int(float64(l.Server)/float64(l.Node)+0.5)), most)
	}
	return min(max(fewest, int(2*float64(l.Server)/float64(l.Node)+0.5)), most)
}

// Rest is how many bytes at the end of a load need no slot: what a node receives while the next one starts. Without it,
// loads that begin together end together and leave the link idle.
func (l Links) Rest() int64 { return int64(l.share() * turnaround.Seconds()) }

// share is the rate of one node while all slots are taken, in bytes a second.
func (l Links) share() float64 { return min(float64(l.Server)/float64(l.Slots()), float64(l.Node)) }

// Load is how long a node is expected to load while all slots are taken.
func (l Links) Load() time.Duration {
	return time.Duration(leastK / l.share() * float64(time.Second))
}

// Bounds of how long a waiting node sleeps before its next request.
const (
	shortestSleep = time.Second
	longestSleep  = 10 * time.Second
	nextSleep     = 2 * time.Second // of the nodes that are next
)

// pause returns how long a node sleeps before its next request: half the expected wait, so that it does not miss a
// slot that becomes free early, and the place on its screen is not old. next: the node is among the first, one for
// each slot.
func pause(expect time.Duration, next bool) time.Duration {
	longest := longestSleep
	if next {
		longest = nextSleep
	}
	return min(max(shortestSleep, (expect/2).Truncate(time.Second)), longest)
}
