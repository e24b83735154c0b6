package admission

import "pando/internal/fleet"

// nodeLinks are the rates of nodes' links as they told them when they registered, in bytes a second.
type nodeLinks struct {
	rates map[fleet.MAC]int64
	sum   int64
}

// relearn is by how much, as a divisor, the mean of the links may change before the queue counts by the new one: it
// forgets then what it has learned of firmware.
const relearn = 8

// set notes a link and returns the mean of all.
func (l *nodeLinks) set(mac fleet.MAC, rate int64) int64 {
	if l.rates == nil {
		l.rates = map[fleet.MAC]int64{}
	}
	l.sum += rate - l.rates[mac]
	l.rates[mac] = rate
	return l.sum / int64(len(l.rates))
}

// Bounds of a link that a node is believed to have, in bits a second.
const (
	slowestLink = 1e6
	fastestLink = 1e12
)

// SawLink notes what a node's link can receive, in bits a second; 0: it did not tell.
func (t *Queue) SawLink(mac fleet.MAC, rate int64) {
	if rate <= 0 {
		return
	}
	rate = min(max(rate, slowestLink), fastestLink)
	t.mu.Lock()
	defer t.mu.Unlock()
	mean := t.nodes.set(mac, rate/8)
	t.nodeLink.Store(mean)
	if now := t.links.Node; mean > now+now/relearn || mean < now-now/relearn {
		t.links.Node = mean
		t.queue.SetNode(mean)
		t.admitNext() // there may be more slots
	}
}

// NodeLink is the mean of what nodes can receive, in bytes a second; 0: none has told. It may be called with any lock
// held.
func (t *Queue) NodeLink() int64 { return t.nodeLink.Load() }
