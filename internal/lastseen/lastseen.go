package lastseen

import (
	"net/netip"
	"sync"
	"time"

	"pando/internal/fleet"
)

// Within is how recently a running node was seen at the latest: it reports about once a minute.
const Within = 3 * time.Minute

// report is the last report of a node.
type report struct {
	at   time.Time
	from netip.Addr
}

// Times has the time and sender address of each node's last report, by MAC. A report a minute from each node is not
// worth a write to the registry, so the registry's own time is some minutes old. The zero value is ready to use.
type Times struct {
	Since time.Time // when the server started; zero: long ago

	mu   sync.Mutex
	last map[fleet.MAC]report
}

// Note records a report of the node with this MAC, from an address.
func (t *Times) Note(mac fleet.MAC, from netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[fleet.MAC]report)
	}
	t.last[mac] = report{now, from}
}

// Left records that the node with this MAC reported its shutdown.
func (t *Times) Left(mac fleet.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, mac)
}

// Address returns the address from which the node with a MAC reported last, or the zero Addr.
func (t *Times) Address(mac fleet.MAC) netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[mac].from
}

// Reports reports whether a running node reported from an address lately.
func (t *Times) Reports(from netip.Addr, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.last {
		if r.from == from && now.Sub(r.at) <= Within {
			return true
		}
	}
	return false
}

// MayRun reports whether the node with a MAC reported within a time, or may have done so before the server started.
func (t *Times) MayRun(mac fleet.MAC, now time.Time, within time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.last[mac].at) < within || now.Sub(t.Since) < within
}

// Reported returns when the node with a MAC reported last; zero: not since the server started.
func (t *Times) Reported(mac fleet.MAC) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[mac].at
}

// Seen returns when a node was last seen: its last report, or what the registry has if that is later.
func (t *Times) Seen(n fleet.Node) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := n.Seen
	for _, mac := range n.MACs {
		if at := t.last[mac].at; at.After(last) {
			last = at
		}
	}
	return last
}
