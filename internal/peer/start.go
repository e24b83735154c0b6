package peer

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// A boot starts with a few small files: the manifest of its version, the signature of that, and the map of its boot pack. Forty of
// each take the server's link as long as a tenth of the boot set does, and nobody has a piece to give before he has them. So they go
// round too: every node of the swarm has them, and the tracker names some.
const (
	startNames = 2 // nodes that are named
	startTries = 64
	startHold  = 2 * time.Second // a start waits so long for room, or a node that has the files
	startLook  = 20 * time.Millisecond
	startFiles = 8 << 10 // bytes of manifest and signature, about, compressed
	startPiece = 128     // and of the map for each piece: its digest, and about twenty extents
	startTime  = startHold + 3*time.Second
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
}

// Start names nodes that have what a boot starts with. None are named when the server shall send it; or, with wait, when it shall
// be asked again a little later.
func (t *Tracker) Start(now time.Duration, s Start) (peers []netip.AddrPort, wait bool) {
	t.over(now, s.Size)
	if t.uplink.free(now, s.Size) {
		t.uplink.pass(now, s.Size)
		return nil, false
	}
	w := t.swarms[s.Swarm]
	if w == nil || len(w.all) == 0 {
		return nil, true
	}
	each := t.uplink.time(s.Size) // the links of nodes are not known: as if they were the server's
	asks := &member{subnet: s.Subnet, place: s.Place, near: s.Near}
	for _, from := range [][]*member{w.near[s.Subnet], w.all} {
		first := t.o.Random.IntN(max(1, len(from)))
		for i := range min(len(from), startTries) {
			m := from[(first+i)%len(from)]
			if m.starts > now+each || m.shunned || t.banned[m.addr.Addr()] || !asks.mayMeet(m) {
				continue
			}
			if m.starts = max(m.starts, now) + each; len(peers) == 1 && peers[0] == m.addr {
				continue
			}
			if peers = append(peers, m.addr); len(peers) == startNames {
				return peers, false
			}
		}
	}
	return peers, len(peers) == 0
}

// startFiles answers POST /swarm/start: who has what a boot starts with. None: the server sends it.
func (s *TrackerServer) startFiles(r *http.Request, q startMessage) (startReply, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return startReply{}, false
	}
	start := Start{Swarm: q.Pack, Size: startFiles + int64(pieces)*startPiece, Subnet: subnet(asker(r, 1).Addr(), q.Prefix),
		Place: q.Place[:min(len(q.Place), 64)], Near: q.Near}
	until := s.now() + startHold
	look := time.NewTicker(startLook)
	defer look.Stop()
	for {
		s.mu.Lock()
		peers, wait := s.tracker.Start(s.now(), start)
		s.mu.Unlock()
		if !wait || s.now() > until {
			return startReply{peers}, true
		}
		select {
		case <-look.C:
		case <-r.Context().Done():
			return startReply{}, false
		}
	}
}

// StartPeers asks a tracker who has what a boot starts with, and returns base URLs: manifest, signature and map are there as in a
// server's data path. None, also when the tracker is not there: a server has them. Whoever sends them, they have to be verified.
func StartPeers(ctx context.Context, client *http.Client, tracker string, pack chunk.ID, prefix int, place string, near bool) []string {
	var a startReply
	t := trackerClient{tracker, client, &atomic.Int64{}, &atomic.Int64{}}
	if t.post(ctx, "start", startMessage{pack.String(), prefix, place, near}, &a, startTime) != nil {
		return nil
	}
	var out []string
	for _, p := range a.Peers[:min(len(a.Peers), startNames)] {
		if p.IsValid() {
			out = append(out, "http://"+p.String())
		}
	}
	return out
}
