package swarm

import (
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// Joining. A boot starts with a few small files: the manifest of its version, its signature, and the map of the boot
// pack. Sent to forty nodes they would take a tenth of the storm's time on the server's link, and no node can share
// before it has them. So they come from nodes that have booted before, two of which the tracker names.
const (
	bootstrapNames = 2 // nodes that are named
	bootstrapTries = 64
	// A join request of a node that does not tell its timeout is held so long.
	minJoinHold         = 2 * time.Second
	joinMax             = 2 * time.Minute // the node repeats its request for so long, and then turns to the server
	joinPause           = minJoinHold / 4 // pause between requests that the tracker did not hold
	joinLook            = 20 * time.Millisecond
	firstShare          = 4       // a fourth of the uplink is for joins for which there is neither room nor a node
	bootstrapBytes      = 8 << 10 // compressed manifest and signature, about
	bootstrapPieceBytes = 128     // of the map for each piece: its digest and about twenty extents
	// Objects up to this size count as bootstrap files; a part of the index is one.
	smallObject      = 16 << 10
	usualJoinTimeout = 12 * time.Second // a node waits so long for the first reply
)

// BootstrapFiles are the files that a boot starts with, for nodes that boot later.
type BootstrapFiles struct {
	Manifest, Signature []byte         // none: this node does not serve them
	Map                 chunk.Verified // of the pack
}

// JoinRequest is the request of a node that boots and has nothing yet.
type JoinRequest struct {
	Swarm     string
	Size      int64        // bytes of the files
	Subnet    netip.Prefix // zero: not known
	Location  string
	LocalOnly bool
	// the node was answered lately, and its transfer is charged already
	Counted bool
}

// bootstrap names nodes that have the bootstrap files. Without names the server sends them; with wait, the request is
// to be tried again a little later.
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

// mayJoinFirst reports whether the server sends the files although the uplink is busy, because no node of that swarm
// has them. Otherwise another swarm could keep a new version from booting. All such joins together get a part of the
// uplink.
func (t *Tracker) mayJoinFirst(now time.Duration, size int64) bool {
	if now < t.firstAfter {
		return false
	}
	t.firstAfter = now + max(firstShare*t.uplink.time(size), joinLook)
	t.uplink.charge(now, size)
	return true
}

// bootstrapPeers returns the nodes to name; some tells whether any has the files, who may all have sent enough for
// now.
func (t *Tracker) bootstrapPeers(now time.Duration, s JoinRequest) (peers []netip.AddrPort, some bool) {
	w := t.swarms[localityOf(s.Swarm, s.Location, s.Subnet, s.LocalOnly)]
	if w == nil {
		return nil, false
	}
	each := t.uplink.time(s.Size) // links of nodes are taken for as fast as the server's
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

// JoinTimeout is how long a node waits for the reply to its join request. It grows with the announce delay, so that
// waiting nodes do not fill a slow link with requests.
func JoinTimeout(delay time.Duration) time.Duration { return usualJoinTimeout + 2*BoundDelay(delay) }
