package tracker

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// startFiles answers POST /swarm/start: who has what a boot starts with. None: the server sends it, or is to be
// asked again.
func (s *Server) startFiles(r *http.Request, q swarm.StartMessage) (swarm.StartReply, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return swarm.StartReply{}, false
	}
	from := swarm.Sender(r.RemoteAddr, 1).Addr()
	start := swarm.Start{
		Swarm:  q.Pack,
		Size:   swarm.StartSize(pieces),
		Subnet: subnet(from, q.Prefix),
		Place:  q.Place[:min(len(q.Place), 64)],
		Near:   q.Near,
	}
	answer := make(chan swarm.StartAnswer, 1)
	s.mu.Lock()
	x := s.tracker.StandStart(s.now(), from, start, swarm.Milliseconds(q.Patience, swarm.StartPatience(swarm.LateMost)))
	s.starts[x] = answer
	s.step()
	s.mu.Unlock()
	select {
	case a := <-answer:
		return swarm.StartReply{Peers: a.Peers, Again: a.Again, Late: a.Late.Milliseconds()}, true
	case <-r.Context().Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.starts, x)
		s.tracker.LeaveStart(x)
		s.step()
		return swarm.StartReply{}, false
	}
}

// Admit waits until an object may be sent to a node. It returns false when ctx ended before.
func (s *Server) Admit(ctx context.Context, node netip.Addr, object chunk.ID, size int64) bool {
	s.mu.Lock()
	x, wait := s.tracker.Admit(s.now(), swarm.Body{Node: node, Object: object.Brief(), Size: size})
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
func (s *Server) Sent(node netip.Addr, object chunk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.ObjectSent(node, object.Brief())
	s.step()
}

func (s *Server) looseObject(r *http.Request, q swarm.LooseMessage) (swarm.LooseReply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, wait := s.tracker.Find(s.now(), q.Object, swarm.Sender(r.RemoteAddr, q.Port.Port()), q.Size)
	return swarm.LooseReply{Peers: names, Wait: wait.Milliseconds()}, true
}

// stepLines answers those that stand in line whose turn it is. The caller holds mu.
func (s *Server) stepLines(now time.Duration) (wake time.Duration) {
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
		wake = swarm.Earlier(wake, at)
	}
	return wake
}
