package swarm

import "time"

// A node that can reach no holder of a piece, because of a firewall, would wait for ever. So nodes tell how many pieces
// their peers sent. A node that gets no piece for long after it was told to ask its peers counts as stalled. It is
// served like a lone node until a peer sends it a piece.
const stalledFactor = 4 // in times of the hold of a request plus copyDelay

// setFromPeers notes how many pieces peers sent a member so far.
func (m *member) setFromPeers(pieces int) {
	if pieces != m.fromPeers {
		m.fromPeers, m.sentAwayAt, m.stalled = pieces, 0, false
	}
}

// sendAway notes that a member was told to ask its peers instead of the server.
func (m *member) sendAway(now time.Duration) {
	if m.sentAwayAt == 0 {
		m.sentAwayAt = now
	}
}

// isStalled reports whether a member is stalled. round is the time in which peers should have helped it.
func (m *member) isStalled(now, round time.Duration) bool {
	m.stalled = m.stalled || m.sentAwayAt > 0 && now > m.sentAwayAt+stalledFactor*round
	return m.stalled
}
