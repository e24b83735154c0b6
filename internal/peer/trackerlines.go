package peer

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// startFiles answers POST /swarm/start: who has what a boot starts with. None: the server sends it, or is to be
// asked again.
func (s *TrackerServer) startFiles(r *http.Request, q startMessage) (startReply, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return startReply{}, false
	}
	from := asker(r, 1).Addr()
	start := Start{
		Swarm:  q.Pack,
		Size:   StartSize(pieces),
		Subnet: subnet(from, q.Prefix),
		Place:  q.Place[:min(len(q.Place), 64)],
		Near:   q.Near,
	}
	answer := make(chan StartAnswer, 1)
	s.mu.Lock()
	x := s.tracker.StandStart(s.now(), from, start, milliseconds(q.Patience, startPatience(LateMost)))
	s.starts[x] = answer
	s.step()
	s.mu.Unlock()
	select {
	case a := <-answer:
		return startReply{Peers: a.Peers, Again: a.Again, Late: a.Late.Milliseconds()}, true
	case <-r.Context().Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.starts, x)
		s.tracker.LeaveStart(x)
		s.step()
		return startReply{}, false
	}
}

// Admit waits until an object may be sent to a node. It returns false when ctx ended before.
func (s *TrackerServer) Admit(ctx context.Context, node netip.Addr, object chunk.ID, size int64) bool {
	s.mu.Lock()
	x, wait := s.tracker.Admit(s.now(), Body{node, object.Brief(), size})
	if !wait {
		s.mu.Unlock()
		return true
	}
	out := make(chan struct{})
	s.bodies[x] = out
	s.step()
	s.mu.Unlock()
	select {
	case <-out:
		return true
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-out: // it was its turn just now
			s.tracker.ObjectSent(node, object.Brief())
		default:
			delete(s.bodies, x)
			s.tracker.LeaveBody(s.now(), x)
		}
		s.step()
		return false
	}
}

// Sent says that the server has sent an object to a node, well or not. Only what was granted counts.
func (s *TrackerServer) Sent(node netip.Addr, object chunk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.ObjectSent(node, object.Brief())
	s.step()
}

func (s *TrackerServer) looseObject(r *http.Request, q looseMessage) (looseReply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, wait := s.tracker.Find(s.now(), q.Object, asker(r, q.Port.port()), q.Size)
	return looseReply{names, wait.Milliseconds()}, true
}

// stepLines answers those that stand in line whose turn it is. The caller holds mu.
func (s *TrackerServer) stepLines(now time.Duration) (wake time.Duration) {
	starts, wake := s.tracker.StepStarts(now)
	for _, r := range starts {
		if c := s.starts[r.Ticket]; c != nil {
			delete(s.starts, r.Ticket)
			c <- r.StartAnswer
		}
	}
	bodies, at := s.tracker.StepBodies(now)
	for _, x := range bodies {
		if c := s.bodies[x]; c != nil {
			delete(s.bodies, x)
			close(c)
		}
	}
	if at > 0 {
		wake = earlier(wake, at)
	}
	return wake
}
