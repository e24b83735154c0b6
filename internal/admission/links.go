package admission

import "pando/internal/fleet"

// nodeLinks holds the rates of nodes' links, which they tell when they register, in bytes per second.
type nodeLinks struct {
	rates map[fleet.MAC]int64
	sum   int64
}

// relearn: if the mean of the links changes by more than 1/relearn, the queue uses the new mean. It then forgets what
// it has learned about firmware, so small changes are ignored.
const relearn = 8

// set notes a node's link and returns the mean of all.
func (l *nodeLinks) set(mac fleet.MAC, rate int64) int64 {
	if l.rates == nil {
		l.rates = map[fleet.MAC]int64{}
	}
	l.sum += rate - l.rates[mac]
	l.rates[mac] = rate
	return l.sum / int64(len(l.rates))
}

// Bounds of the rate that a node may tell, in bits per second.
const (
	slowestLink = 1e6
	fastestLink = 1e12
)

// SawLink notes the receive rate of a node's link, in bits per second; 0: the node did not tell it.
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

// NodeLink returns the mean receive rate of the nodes' links, in bytes per second; 0: no node has told it. It may be
// called with any lock held.
func (t *Queue) NodeLink() int64 { return t.nodeLink.Load() }
