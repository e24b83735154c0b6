package swarm

import (
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// Joining. A boot starts with a few small files: the manifest of its version, its signature, and the map of the boot
// pack. Sending them to all nodes of a storm takes long, and no node can share before it has them. So nodes that booted
// before send them; the tracker names two.
const (
	bootstrapNames = 2 // nodes that a reply names
	bootstrapTries = 64
	// Shortest hold of a join request.
	minJoinHold         = 2 * time.Second
	joinMax             = 2 * time.Minute // a node repeats its request for so long, then it asks the server
	joinPause           = minJoinHold / 4 // pause before a request is repeated
	joinLook            = 20 * time.Millisecond
	firstShare          = 4       // 1/firstShare of the uplink is for joins for which there is neither room nor a node
	bootstrapBytes      = 8 << 10 // about the size of the compressed manifest and signature
	bootstrapPieceBytes = 128     // of the map per piece: its digest and about twenty extents
	// Objects up to this size count as bootstrap files, so that parts of the index do.
	smallObject      = 16 << 10
	usualJoinTimeout = 12 * time.Second // how long a node waits for the first reply
)

// BootstrapFiles are the files that a boot starts with. A node keeps them for nodes that boot later.
type BootstrapFiles struct {
	Manifest, Signature []byte         // nil: this node does not serve them
	Map                 chunk.Verified // of the pack
}

// JoinRequest is the request of a node that boots and has no file yet.
type JoinRequest struct {
	Swarm     string
	Size      int64        // bytes of the files
	Subnet    netip.Prefix // zero: not known
	Location  string
	LocalOnly bool
	// The node was answered lately, and the transfer is already charged.
	Counted bool
}

// bootstrap returns nodes that have the bootstrap files. Without peers and without wait, the server sends the files. If
// wait is true, try the request again a little later.
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

// mayJoinFirst reports whether the server sends the files on a busy uplink, because no node of that swarm has them.
// Otherwise another swarm could keep a new version from booting. All such joins together get 1/firstShare of the
// uplink.
func (t *Tracker) mayJoinFirst(now time.Duration, size int64) bool {
	if now < t.firstAfter {
		return false
	}
	t.firstAfter = now + max(firstShare*t.uplink.time(size), joinLook)
	t.uplink.charge(now, size)
	return true
}

// bootstrapPeers returns the nodes to name. some is true if any node has the files, even if all of them are busy.
func (t *Tracker) bootstrapPeers(now time.Duration, s JoinRequest) (peers []netip.AddrPort, some bool) {
	w := t.swarms[localityOf(s.Swarm, s.Location, s.Subnet, s.LocalOnly)]
	if w == nil {
		return nil, false
	}
	each := t.uplink.time(s.Size) // assumes that nodes' links are as fast as the server's
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

// JoinTimeout returns how long a node waits for the reply to its join request. It grows with the announce delay, so
// that waiting nodes do not fill a slow link with requests.
func JoinTimeout(delay time.Duration) time.Duration { return usualJoinTimeout + 2*BoundDelay(delay) }
