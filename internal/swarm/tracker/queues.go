package tracker

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// join answers POST /swarm/start with nodes that have the bootstrap files. Without names, the node loads the files from
// the server or repeats the request.
func (s *Server) join(r *http.Request, q swarm.JoinMessage) (swarm.JoinReplyMessage, bool) {
	pieces := len(s.pieces(q.Pack))
	if s.packs != nil && pieces == 0 {
		return swarm.JoinReplyMessage{}, false
	}
	from := swarm.NodeAddr(r.RemoteAddr, 1).Addr()
	start := swarm.JoinRequest{
		Swarm:     q.Pack,
		Size:      swarm.BootstrapSize(pieces),
		Subnet:    subnet(from, q.Prefix),
		Location:  q.Location[:min(len(q.Location), 64)],
		LocalOnly: q.LocalOnly,
	}
	answer := make(chan swarm.JoinReply, 1)
	s.mu.Lock()
	x := s.tracker.QueueJoin(
		s.now(),
		from,
		start,
		swarm.Milliseconds(q.Patience, swarm.JoinTimeout(swarm.MaxAnnounceDelay)),
	)
	s.joins[x] = answer
	s.step()
	s.mu.Unlock()
	select {
	case a := <-answer:
		return swarm.JoinReplyMessage{Peers: a.Peers, Again: a.Again,
			AnnounceDelay: a.AnnounceDelay.Milliseconds()}, true
	case <-r.Context().Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.joins, x)
		s.tracker.CancelJoin(x)
		s.step()
		return swarm.JoinReplyMessage{}, false
	}
}

// Admit waits until an object may be sent to a node. It returns false when ctx ended first.
func (s *Server) Admit(ctx context.Context, node netip.Addr, object chunk.ID, size int64) bool {
	s.mu.Lock()
	x, wait := s.tracker.Admit(s.now(), swarm.ObjectRequest{Node: node, Object: object.Short(), Size: size})
	if !wait {
		s.mu.Unlock()
		return true
	}
	out := make(chan struct{})
	s.objects[x] = out
	s.step()
	s.mu.Unlock()
	select {
	case <-out:
		return true
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-out: // admitted at the same moment
			s.tracker.ObjectSent(node, object.Short())
		default:
			delete(s.objects, x)
			s.tracker.CancelObject(s.now(), x)
		}
		s.step()
		return false
	}
}

// Sent notes that the server has sent an object to a node, or failed to. Objects without a grant are ignored.
func (s *Server) Sent(node netip.Addr, object chunk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.ObjectSent(node, object.Short())
	s.step()
}

func (s *Server) demand(r *http.Request, q swarm.DemandMessage) (swarm.DemandReplyMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, wait := s.tracker.FindDemand(s.now(), q.Object, swarm.NodeAddr(r.RemoteAddr, q.Port.Port()), q.Size)
	return swarm.DemandReplyMessage{Peers: names, Wait: wait.Milliseconds()}, true
}

// stepQueues answers the queued requests that are due. The caller holds mu.
func (s *Server) stepQueues(now time.Duration) (wake time.Duration) {
	starts, wake := s.tracker.StepJoins(now)
	for _, r := range starts {
		if c := s.joins[r.Ticket]; c != nil {
			delete(s.joins, r.Ticket)
			c <- r.JoinReply
		}
	}
	bodies, at := s.tracker.StepObjects(now)
	for _, x := range bodies {
		if c := s.objects[x]; c != nil {
			delete(s.objects, x)
			close(c)
		}
	}
	if at > 0 {
		wake = swarm.Earlier(wake, at)
	}
	return wake
}
