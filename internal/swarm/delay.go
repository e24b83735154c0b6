package swarm

import "time"

// Announce delay. With a slow link or thousands of nodes, a small message takes seconds, because it queues behind
// pieces. A node that takes it for lost asks elsewhere and adds load. Only the server knows its uplink and the number
// of nodes. So it tells nodes the delay to expect, and no timeout is shorter. A delay below minDelay is sent as 0.
const (
	switchQueue = 128 << 10 // bytes that a port of a small switch queues before a link that is full
	// Bytes of a message, its reply and all headers.
	exchangeBytes = 1 << 10
	resendFactor  = 2                      // allows for one retransmission
	minDelay      = 200 * time.Millisecond // a shorter delay changes no time-out
)

// MaxAnnounceDelay is the longest announce delay that a node accepts.
const MaxAnnounceDelay = 30 * time.Second

// announceDelay returns how long a message may take while that number of nodes talks to the tracker. 0: no longer than
// usual, or the uplink's rate is unknown.
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

// AnnounceDelay returns the announce delay of a swarm, when that many more nodes are about to join it.
func (t *Tracker) AnnounceDelay(key string, more int) time.Duration {
	return t.announceDelay(t.nodesOf[key] + more)
}

// BoundDelay limits an announce delay that a node was told.
func BoundDelay(delay time.Duration) time.Duration { return min(max(delay, 0), MaxAnnounceDelay) }

// MessageTimeout returns how long a node waits for a reply of the tracker.
func MessageTimeout(delay time.Duration) time.Duration { return trackerTimeout + 2*BoundDelay(delay) }

// requestHold returns how long the tracker may hold a piece request: two thirds of the node's own timeout. timeout 0:
// the node did not tell it.
func requestHold(timeout time.Duration) time.Duration {
	return min(max(timeout, trackerTimeout), MessageTimeout(MaxAnnounceDelay)) * 2 / 3
}
