// Package lastseen remembers when each running node reported last.
//
// It owns that table, in memory only. The room that takes reports writes it; rooms that show nodes or wait for them
// read it. It must never record a report whose sender was not authenticated: that bounds its size.
package lastseen

import (
	"sync"
	"time"

	"pando/internal/fleet"
)

// Within is how recently a running node was seen: it reports about once a minute.
const Within = 3 * time.Minute

// Times are the times of the last reports, by MAC. A report a minute from each node is not worth a write to the
// registry, whose own "seen" is therefore some minutes old. The zero value is ready to use.
type Times struct {
	mu sync.Mutex
	at map[fleet.MAC]time.Time
}

// Note records a report of the node with this MAC.
func (t *Times) Note(mac fleet.MAC, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = make(map[fleet.MAC]time.Time)
	}
	t.at[mac] = now
}

// Seen returns when a node was last seen: its last report, or what the registry has if that is later.
func (t *Times) Seen(n fleet.Node) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := n.Seen
	for _, mac := range n.MACs {
		if at := t.at[mac]; at.After(last) {
			last = at
		}
	}
	return last
}
