package swarm

import "time"

// A node that can reach none of those who have what it wants, because of a firewall between them, would wait for
// ever: the pieces are in the swarm. So nodes say how many pieces peers gave them, and the tracker notes when it
// first sent one to its peers in vain. Who was given nothing for so long after that is served as if there were
// nobody else, until peers give it something.
const stalledFactor = 4 // times as long as a question may be held, and the first copy of a piece may take to come round

// feeds notes how many pieces peers have given a member so far.
func (m *member) setFromPeers(pieces int) {
	if pieces != m.fromPeers {
		m.fromPeers, m.sentAwayAt, m.stalled = pieces, 0, false
	}
}

// sendAway notes that a member was told to ask its peers.
func (m *member) sendAway(now time.Duration) {
	if m.sentAwayAt == 0 {
		m.sentAwayAt = now
	}
}

// strand tells whether a member is stranded, where peers should help within so long.
func (m *member) isStalled(now, round time.Duration) bool {
	m.stalled = m.stalled || m.sentAwayAt > 0 && now > m.sentAwayAt+stalledFactor*round
	return m.stalled
}
