package peer

import (
	"context"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// Admission. On a slow uplink, a server that sends everything to all who ask at once sends nothing in time: hundreds of transfers share the link, all
// are given up before they are done, and begin again. So what the tracker has not granted stands in line, and comes at the full rate when it
// is its turn. Who gives up meanwhile leaves the line, and costs nothing. On usual links nobody waits.
const (
	admitQuick = 20 * time.Millisecond // what is sent in less does not wait
	admitAhead = openMost              // usual pieces that are under way when what is small still goes out
	admitLong  = 4 * openMost          // times what it takes to send, after which the first in line goes out although granted pieces fill the uplink
	admitPiece = 64 << 10              // bytes of a usual piece
)

// Body decides about a transfer to a node that nobody granted, and that has been the first in line for so long: after 0 it goes out now, and BodySent ends it; else it
// is to be asked about again so much later. Questions come first, as what they are granted goes round: call Step before.
func (t *Tracker) Body(now time.Duration, node netip.Addr, size int64, waited time.Duration) (after time.Duration) {
	u := &t.uplink
	takes := u.time(size)
	if takes < admitQuick {
		return 0
	}
	t.over(now)
	free := u.free(now, size)
	if size <= startSmall {
		free = now >= u.until-admitAhead*u.time(admitPiece)
	}
	if !free && waited < admitLong*takes {
		return min(max(time.Millisecond, takes/4), time.Second)
	}
	if size <= startSmall {
		u.pass(now, size)
	} else {
		u.spend(sending{node: sender(node), piece: bodyPiece, since: now, begun: true}, size)
	}
	return 0
}

// bodyPiece stands for an object that nobody granted, among the transfers that are under way; mapPiece for the map that a boot starts with.
const (
	bodyPiece = -2
	mapPiece  = -1
)

// sender stands for a node whose port does not matter.
func sender(node netip.Addr) netip.AddrPort { return netip.AddrPortFrom(node, 1) }

// BodySent says that such a transfer has ended, or one of a loose object.
func (t *Tracker) BodySent(node netip.Addr) { t.uplink.sent("", sender(node), bodyPiece) }

// Admit waits until an object may be sent to a node. It returns false when ctx ended before.
func (s *TrackerServer) Admit(ctx context.Context, node netip.Addr, object chunk.ID, size int64) bool {
	s.mu.Lock()
	x, allowed := s.granted[grant{node, object.Brief()}]
	if allowed && x.piece >= 0 {
		s.tracker.Begin(s.now(), x.pack, x.node, x.piece)
	}
	quick := s.tracker.uplink.time(size) < admitQuick
	s.mu.Unlock()
	if allowed || quick {
		return true
	}
	line := s.large
	if size <= startSmall {
		line = s.small
	}
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return false
	}
	begin := s.now() // of being the first: were it that of standing in line, all of a long one would go out together
	for {
		s.mu.Lock()
		s.step()
		after := s.tracker.Body(s.now(), node, size, s.now()-begin)
		if after == 0 && size > startSmall {
			s.allow(grant{node, object.Brief()}, granted{piece: bodyPiece})
		}
		s.mu.Unlock()
		if after == 0 {
			return true
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return false
		}
	}
}
