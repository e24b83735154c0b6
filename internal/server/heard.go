package server

import (
	"sync"
	"time"

	"pando/internal/fleet"
)

// heard is when the agents of running nodes reported last. A report a minute from each node is not worth a write to
// the registry, whose own "seen" is some minutes old therefore; what is kept here is lost with the process and there
// again a minute later.
type heard struct {
	mu sync.Mutex
	at map[fleet.MAC]time.Time // of nodes that proved who they are, so their number is bounded
}

// note notes a report of a boot of mac.
func (h *heard) note(mac fleet.MAC, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = make(map[fleet.MAC]time.Time)
	}
	h.at[mac] = now
}

// seen is the last sign of a node: a report, or what the registry has.
func (h *heard) seen(n fleet.Node) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := n.Seen
	for _, mac := range n.MACs {
		if at := h.at[mac]; at.After(last) {
			last = at
		}
	}
	return last
}
