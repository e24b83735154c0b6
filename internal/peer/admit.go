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

// Body decides about a transfer that nobody granted, and has waited for so long: after 0 it may go out now, else it is to be asked about again so
// much later.
func (t *Tracker) Body(now time.Duration, size int64, waited time.Duration) (after time.Duration) {
	u := &t.uplink
	takes := u.time(size)
	if takes < admitQuick {
		return 0
	}
	t.over(now, size)
	free := now >= u.until-max(burst, takes) && (u.deaf() || len(u.open) < u.most(size))
	if size <= startSmall {
		free = now >= u.until-admitAhead*u.time(admitPiece)
	}
	if !free && waited < admitLong*takes {
		return min(max(time.Millisecond, takes/4), time.Second)
	}
	u.pass(now, size)
	return 0
}

// Admit waits until an object may be sent to a node. It returns false when ctx ended before.
func (s *TrackerServer) Admit(ctx context.Context, node netip.Addr, object chunk.ID, size int64) bool {
	s.mu.Lock()
	_, granted := s.granted[grant{node, object}]
	quick := s.tracker.uplink.time(size) < admitQuick
	s.mu.Unlock()
	if granted || quick {
		return true
	}
	line := s.large
	if size <= startSmall {
		line = s.small
	}
	begin := s.now()
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return false
	}
	for {
		s.mu.Lock()
		after := s.tracker.Body(s.now(), size, s.now()-begin)
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
