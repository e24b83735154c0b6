package swarm

import "time"

// A node that can reach no holder of a piece, because a firewall is between them, would wait for ever. So nodes tell
// how many pieces peers sent them. A node that peers sent nothing for long after it was first sent to them is served
// like a node that is alone, until a peer sends it something.
const stalledFactor = 4 // times the hold of a request and copyDelay

// setFromPeers notes how many pieces peers sent a member so far.
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

// isStalled reports whether a member is stalled, where peers should have helped within round.
func (m *member) isStalled(now, round time.Duration) bool {
	m.stalled = m.stalled || m.sentAwayAt > 0 && now > m.sentAwayAt+stalledFactor*round
	return m.stalled
}
