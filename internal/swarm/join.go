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
	startNames = 2 // nodes that are named
	startTries = 64
	// a start waits so long for room, or a node that has the files, where its node does not say how long it waits
	// itself
	startHold  = 2 * time.Second
	startMost  = 2 * time.Minute // and the node asks again for so long, until it turns to the server anyway
	startPause = startHold / 4   // but not at once where the tracker did not make it wait
	startLook  = 20 * time.Millisecond
	startPart  = 4       // a fourth of the uplink is for those for whom there is neither room nor a node
	startFiles = 8 << 10 // bytes of manifest and signature, about, compressed
	startPiece = 128     // and of the map for each piece: its digest, and about twenty extents
	// bytes of an object that is as small as what boots start with, such as a part of the index
	startSmall = 16 << 10
	startTime  = 12 * time.Second // a node waits so long for the first answer
)

// StartFiles are what a boot starts with, for those who boot after this node.
type StartFiles struct {
	Manifest, Signature []byte         // none: this node does not give them
	Map                 chunk.Verified // of the pack
}

// Start is a node that boots and has nothing yet.
type Start struct {
	Swarm  string
	Size   int64        // bytes that it needs
	Subnet netip.Prefix // zero: not known
	Place  string
	Near   bool
	// it was told lately where it gets that, and is counted already: who only asks takes nothing from others
	Told bool
}

// Start names nodes that have what a boot starts with. None are named when the server shall send it; or, with wait,
// when it shall be asked again a little later.
func (t *Tracker) Start(now time.Duration, s Start) (peers []netip.AddrPort, wait bool) {
	t.Sweep(now)
	t.over(now)
	if !t.busy && t.uplink.free(now, s.Size) {
		if !s.Told {
			t.uplink.pass(now, s.Size)
		}
		return nil, false
	}
	peers, some := t.starters(now, s)
	if !some {
		return nil, !s.Told && !t.first(now, s.Size)
	}
	return peers, len(peers) == 0
}

// first tells whether the server sends what a boot starts with although the uplink is spent, because no node has
// it. While another swarm takes all of it there would never be room, and until one has it there is no swarm that
// could help. All such starts together take a part of the uplink.
func (t *Tracker) first(now time.Duration, size int64) bool {
	if now < t.firsts {
		return false
	}
	t.firsts = now + max(startPart*t.uplink.time(size), startLook)
	t.uplink.pass(now, size)
	return true
}

// starters are the nodes to name to a boot; some tells whether there are any, who may all have sent enough for now.
func (t *Tracker) starters(now time.Duration, s Start) (peers []netip.AddrPort, some bool) {
	w := t.swarms[areaOf(s.Swarm, s.Place, s.Subnet, s.Near)]
	if w == nil {
		return nil, false
	}
	each := t.uplink.time(s.Size) // the links of nodes are not known: as if they were the server's
	asks := &member{subnet: s.Subnet, place: s.Place, near: s.Near}
	for _, from := range [][]*member{w.near[s.Subnet], w.all} {
		first := t.o.Random.IntN(max(1, len(from)))
		for i := range min(len(from), startTries) {
			m := from[(first+i)%len(from)]
			if m.shunned || t.bans.has(m.addr.Addr()) || !asks.mayMeet(m) {
				continue
			}
			some = true
			if m.starts > now+each {
				continue
			}
			if !s.Told {
				m.starts = max(m.starts, now) + each
			}
			if len(peers) == 1 && peers[0] == m.addr {
				continue
			}
			if peers = append(peers, m.addr); len(peers) == startNames {
				return peers, some
			}
		}
	}
	return peers, some
}

// startPatience is how long a node waits for an answer to its start. Where word is late that is longer, so that a
// crowd that waits does not fill the link with questions.
func StartPatience(late time.Duration) time.Duration { return startTime + 2*Bounded(late) }
