package netboot

import "time"

// Links are the rates that decide how many nodes load K at the same time, in bytes a second.
type Links struct {
	Server int64 // what the server can send
	Node   int64 // what a node can receive
}

const (
	// typicalK is about what a node loads: the kernel and the drivers for every usual NIC, of Debian 12 and 13.
	typicalK = 18 << 20
	// fewest are the slots that there are at least: while one node's firmware thinks, the link is the other's.
	fewest = 2
	// most are the slots that there are at most.
	most = 1024
	// turnaround is how long a slot stands empty until the next node takes it: its second of sleep, which is the
	// shortest that iPXE has, and its question.
	turnaround = 1500 * time.Millisecond
)

// Slots is how many nodes load at the same time: twice as many as fill the server's link, so that one that is slow
// leaves no hole. Where a load takes less than the time in which the next node notices that it is its turn, there are
// as many more as keep the link busy until then.
func (l Links) Slots() int {
	full := 2 * float64(l.Server) / float64(l.Node)
	busy := float64(l.Server) * turnaround.Seconds() / typicalK
	return min(max(fewest, int(full+0.5), int(busy+0.5)), most)
}

// Load is how long a node is expected to load while all slots are taken.
func (l Links) Load() time.Duration {
	rate := min(float64(l.Server)/float64(l.Slots()), float64(l.Node))
	return time.Duration(typicalK / rate * float64(time.Second))
}

// Bounds of how long a node that waits sleeps before it asks again.
const (
	shortestSleep = time.Second
	longestSleep  = 10 * time.Second
)

// pause is how long a node sleeps whose turn is expected then: a bit less, for the loads may go faster, and not so long
// that the place on its screen is old.
func pause(expect time.Duration) time.Duration {
	return min(max(shortestSleep, (expect*3/4).Truncate(time.Second)), longestSleep)
}
