package swarm

import "time"

// Announce delay. On a slow link, or with thousands of nodes, a message of a few hundred bytes takes seconds, because
// it queues behind pieces. A node that takes it for lost asks elsewhere, which loads the link even more. Only the
// server knows its uplink and the number of nodes, so it tells nodes the delay to expect, and no time-out is shorter.
// On usual links the delay is far below all time-outs, and is sent as 0.
const (
	switchQueue = 128 << 10 // bytes that a port of a small switch queues before a link that is full
	// bytes of a message, its reply and all headers
	exchangeBytes = 1 << 10
	resendFactor  = 2                      // one retransmission
	minDelay      = 200 * time.Millisecond // a shorter delay changes no time-out
)

// MaxAnnounceDelay bounds the delay that a node believes.
const MaxAnnounceDelay = 30 * time.Second

// announceDelay returns how long a message may take while so many nodes talk to the tracker; 0: no longer than usual,
// or the uplink is unknown.
func (t *Tracker) announceDelay(nodes int) time.Duration {
	if t.uplink.rate == 0 {
		return 0
	}
	queue := t.uplink.time(switchQueue)
	if node := t.o.NodeLink(); node > 0 && node < t.uplink.rate {
		queue = time.Duration(float64(queue) * float64(t.uplink.rate) / float64(node))
	}
	delay := min(resendFactor*(2*queue+t.uplink.time(int64(nodes)*exchangeBytes)), MaxAnnounceDelay)
	if delay < minDelay {
		return 0
	}
	return delay
}

// AnnounceDelay is the delay for the nodes of a swarm, while so many more are about to join it.
func (t *Tracker) AnnounceDelay(key string, more int) time.Duration {
	return t.announceDelay(t.nodesOf[key] + more)
}

// BoundDelay limits a delay that a node was told.
func BoundDelay(delay time.Duration) time.Duration { return min(max(delay, 0), MaxAnnounceDelay) }

// MessageTimeout is how long a node waits for a reply of the tracker.
func MessageTimeout(delay time.Duration) time.Duration { return trackerTimeout + 2*BoundDelay(delay) }

// requestHold is how long the tracker may hold a request whose node waits for so long; 0: the node did not say.
func requestHold(timeout time.Duration) time.Duration {
	return min(max(timeout, trackerTimeout), MessageTimeout(MaxAnnounceDelay)) * 2 / 3
}
