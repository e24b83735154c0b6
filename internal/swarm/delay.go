package swarm

import "time"

// On a slow link, or in a large crowd, a word of a few hundred bytes takes seconds: it waits in the queue before
// some link, behind pieces. Whoever takes it for lost asks somebody else, the link has even more to carry, and in
// the end nothing comes in time. Only the server knows how slow its link is and how many nodes there are, so the
// tracker tells them how long word may be late, and their time-outs are no shorter than that. On usual links it is
// far below all of them, and nothing is said.
const (
	lateQueue = 128 << 10 // bytes that a port of a small switch has room for: what waits before a link when it is full
	// bytes that a node and the tracker say to each other at a time, with all headers
	lateWord  = 1 << 10
	lateTimes = 2                      // what gets lost is sent again
	lateLeast = 200 * time.Millisecond // what is less makes no time-out longer
	heldTimes = 8                      // times as long as word may be late that an answer may be held besides
	heldMost  = 40 * time.Second       // and no longer
)

// LateMost bounds what a tracker can make a node wait.
const LateMost = 30 * time.Second

// late is how long word may be on its way while so many nodes speak; 0: no longer than on usual links, or nobody knows.
func (t *Tracker) late(nodes int) time.Duration {
	if t.uplink.rate == 0 {
		return 0
	}
	queue := t.uplink.time(lateQueue)
	if t.o.NodeLink > 0 && t.o.NodeLink < t.uplink.rate {
		queue = time.Duration(float64(queue) * float64(t.uplink.rate) / float64(t.o.NodeLink))
	}
	late := min(lateTimes*(2*queue+t.uplink.time(int64(nodes)*lateWord)), LateMost)
	if late < lateLeast {
		return 0
	}
	return late
}

// Late is what a node of a swarm is told, where more come that are in no swarm yet.
func (t *Tracker) Late(key string, more int) time.Duration {
	return t.late(t.crowds[key] + more)
}

// bounded is how late word may be for a node, whatever it was told.
func Bounded(late time.Duration) time.Duration { return min(max(late, 0), LateMost) }

// wordTime is how long a node waits for the tracker's answer to a message that is answered at once.
func WordTime(late time.Duration) time.Duration { return askLost + 2*Bounded(late) }

// answerTime is the same for a question, whose answer is held while the uplink has no room. Where pieces take long
// a node's turn comes seldom, and who waits for it asks less often than who is sent away and comes again.
func AnswerTime(late time.Duration) time.Duration {
	return max(WordTime(late), askLost+min(heldTimes*Bounded(late), heldMost))
}

// holdTime is how long the tracker may hold its answer for a node that waits for so long; 0: it did not say.
func holdTime(patience time.Duration) time.Duration {
	return min(max(patience, askLost), AnswerTime(LateMost)) * 2 / 3
}
