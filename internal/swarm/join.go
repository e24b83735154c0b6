package swarm

import (
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// A boot starts with a few small files: the manifest of its version, the signature of that, and the map of its boot
// pack. Forty of each take the server's link as long as a tenth of the boot set does, and nobody has a piece to
// give before he has them. So they go round too: every node of the swarm has them, and the tracker names some.
const (
	bootstrapNames = 2 // nodes that are named
	bootstrapTries = 64
	// a start waits so long for room, or a node that has the files, where its node does not say how long it waits
	// itself
	joinHoldMin         = 2 * time.Second
	joinMax             = 2 * time.Minute // and the node asks again for so long, until it turns to the server anyway
	joinPause           = joinHoldMin / 4 // but not at once where the tracker did not make it wait
	joinLook            = 20 * time.Millisecond
	firstShare          = 4       // a fourth of the uplink is for those for whom there is neither room nor a node
	bootstrapBytes      = 8 << 10 // bytes of manifest and signature, about, compressed
	bootstrapPieceBytes = 128     // and of the map for each piece: its digest, and about twenty extents
	// bytes of an object that is as small as what boots start with, such as a part of the index
	smallObject      = 16 << 10
	usualJoinTimeout = 12 * time.Second // a node waits so long for the first answer
)

// StartFiles are what a boot starts with, for those who boot after this node.
type BootstrapFiles struct {
	Manifest, Signature []byte         // none: this node does not give them
	Map                 chunk.Verified // of the pack
}

// Start is a node that boots and has nothing yet.
type JoinRequest struct {
	Swarm     string
	Size      int64        // bytes that it needs
	Subnet    netip.Prefix // zero: not known
	Location  string
	LocalOnly bool
	// it was told lately where it gets that, and is counted already: who only asks takes nothing from others
	Counted bool
}

// Start names nodes that have what a boot starts with. None are named when the server shall send it; or, with wait,
// when it shall be asked again a little later.
func (t *Tracker) bootstrap(now time.Duration, s JoinRequest) (peers []netip.AddrPort, wait bool) {
	t.Sweep(now)
	t.expireTransfers(now)
	if !t.kernelBusy && t.uplink.free(now, s.Size) {
		if !s.Counted {
			t.uplink.charge(now, s.Size)
		}
		return nil, false
	}
	peers, some := t.bootstrapPeers(now, s)
	if !some {
		return nil, !s.Counted && !t.mayJoinFirst(now, s.Size)
	}
	return peers, len(peers) == 0
}

// first tells whether the server sends what a boot starts with although the uplink is spent, because no node has
// it. While another swarm takes all of it there would never be room, and until one has it there is no swarm that
// could help. All such starts together take a part of the uplink.
func (t *Tracker) mayJoinFirst(now time.Duration, size int64) bool {
	if now < t.firstAfter {
		return false
	}
	t.firstAfter = now + max(firstShare*t.uplink.time(size), joinLook)
	t.uplink.charge(now, size)
	return true
}

// starters are the nodes to name to a boot; some tells whether there are any, who may all have sent enough for now.
func (t *Tracker) bootstrapPeers(now time.Duration, s JoinRequest) (peers []netip.AddrPort, some bool) {
	w := t.swarms[localityOf(s.Swarm, s.Location, s.Subnet, s.LocalOnly)]
	if w == nil {
		return nil, false
	}
	each := t.uplink.time(s.Size) // the links of nodes are not known: as if they were the server's
	asks := &member{subnet: s.Subnet, location: s.Location, localOnly: s.LocalOnly}
	for _, from := range [][]*member{w.bySubnet[s.Subnet], w.all} {
		first := t.o.Random.IntN(max(1, len(from)))
		for i := range min(len(from), bootstrapTries) {
			m := from[(first+i)%len(from)]
			if m.unreliable || t.bans.has(m.addr.Addr()) || !asks.mayMeet(m) {
				continue
			}
			some = true
			if m.bootstrapUntil > now+each {
				continue
			}
			if !s.Counted {
				m.bootstrapUntil = max(m.bootstrapUntil, now) + each
			}
			if len(peers) == 1 && peers[0] == m.addr {
				continue
			}
			if peers = append(peers, m.addr); len(peers) == bootstrapNames {
				return peers, some
			}
		}
	}
	return peers, some
}

// startPatience is how long a node waits for an answer to its start. Where word is late that is longer, so that a
// crowd that waits does not fill the link with questions.
func JoinTimeout(late time.Duration) time.Duration { return usualJoinTimeout + 2*BoundDelay(late) }
