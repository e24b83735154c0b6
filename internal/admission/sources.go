package admission

import (
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// sourceHold is how long the request of a machine is held open that can load from nodes: one may be free at any time.
// The machine's screen shows its place in the queue only between two requests.
const sourceHold = 10 * time.Second

// Load returns the admission of a machine that verifies what it loads, like Request. If nodes have its kernel and
// initramfs and one of them is free, the machine loads from them and needs no slot of the server.
func (t *Queue) Load(m netboot.Machine) (netboot.Admission, []netboot.Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.admitNext()
	now := t.now()
	if !t.queue.HasSlot(m.MAC) {
		if sources := t.sources.Pick(now, m); sources != nil {
			t.queue.Drop(m.MAC)
			return netboot.Admission{}, sources
		}
	}
	t.queue.SetPassed()
	// A machine with so few before it gets a node within one load; the server's link is better used for the root.
	serving := t.sources.Ready(now, m.Objects)
	answer := t.queue.RequestAfter(now, m.MAC, serving)
	if answer.Place > 0 {
		// Each node that loads now serves soon, so the pace of the server alone says too much.
		answer.Expect /= time.Duration(1 + serving)
		answer.Hold = sourceHold
		t.wants[m.MAC] = m
	}
	return answer, nil
}

// sentToSources gives free nodes to the machines whose requests are held open, in their order, and returns these
// machines. Each finds its node by its next Load. The caller holds mu.
func (t *Queue) sentToSources() (sent []fleet.MAC) {
	busy := map[netboot.Objects]bool{}
	for _, mac := range t.queue.Held() {
		m, can := t.wants[mac]
		if !can || busy[m.Objects] || t.waiting[mac] == nil {
			continue
		}
		if t.sources.Pick(t.now(), m) == nil {
			busy[m.Objects] = !m.Local // another one may be near a free node
			continue
		}
		t.queue.Drop(mac)
		sent = append(sent, mac)
	}
	return sent
}

// AddSource records a node that serves the kernel and initramfs of its boot.
func (t *Queue) AddSource(s netboot.Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources.Add(t.now(), s)
	t.admitNext()
}

// SawNode records a report of a node. It returns false if the node serves nothing.
func (t *Queue) SawNode(mac fleet.MAC) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources.Saw(t.now(), mac)
}

// RemoveSource records that a node does not run any more.
func (t *Queue) RemoveSource(mac fleet.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources.Remove(mac)
}

// Sources returns how many nodes serve these objects.
func (t *Queue) Sources(o netboot.Objects) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources.Count(o)
}

// Failed records that nodes did not deliver an object to a machine that goes on loading.
func (t *Queue) Failed(nodes ...fleet.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources.Failed(t.now(), nodes...)
}

// Loaded records that a machine has loaded: from is the node that delivered, failed are those that did not. A zero MAC
// means no node.
func (t *Queue) Loaded(machine, from fleet.MAC, failed ...fleet.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources.Done(t.now(), machine, from, failed...)
	t.admitNext()
}
