package tftp

import (
	"net/netip"
	"sync"
	"time"
)

// A request is one packet, and anybody can forge its sender address. So the places for transfers are limited by peer,
// by subnet, and for all unknown peers together. A transfer that nobody acknowledges ends in seconds.
const (
	firstAck   = 8 * time.Second // a transfer is given up without an acknowledgement for this long after its request
	leastTime  = time.Minute     // a transfer may take this long, plus
	leastRate  = 8 << 10         // the time that its bytes take at this rate, in bytes a second
	maxTimeout = 8               // seconds; a peer's timeout option with a longer time is ignored
)

// places are the transfers under way.
type places struct {
	peers   map[netip.Addr]int
	subnets map[netip.Prefix]int    // of unknown peers
	busy    map[netip.AddrPort]bool // true: a known peer. A request repeated from the same port is the same transfer
	unknown int                     // of unknown peers
}

// subnetOf returns the network of a peer, which has its own limit.
func subnetOf(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(24) // no error: all addresses are IPv4
	return p
}

// begin takes a place for a transfer. It returns false for a repeated request and for a peer that reached a limit.
func (s *Server) begin(peer netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.places
	if p.busy == nil {
		p.peers, p.subnets, p.busy = map[netip.Addr]int{}, map[netip.Prefix]int{}, map[netip.AddrPort]bool{}
	}
	if _, again := p.busy[peer]; again {
		return false
	}
	all, a := or(s.MaxTransfers, DefaultMaxTransfers), peer.Addr()
	if len(p.busy) >= all || p.peers[a] >= or(s.MaxPerPeer, DefaultMaxPerPeer) {
		s.drop(peer)
		return false
	}
	known := false
	if p.unknown >= or(s.MaxUnknown, all/4*3) || p.subnets[subnetOf(a)] >= or(s.MaxPerSubnet, DefaultMaxPerSubnet) {
		if known = s.Known != nil && s.Known(a); !known {
			s.drop(peer)
			return false
		}
	}
	p.busy[peer] = known
	p.peers[a]++
	if !known {
		p.unknown++
		p.subnets[subnetOf(a)]++
	}
	return true
}

// drop logs that a request is not answered. The lock is held.
func (s *Server) drop(peer netip.AddrPort) {
	s.warn("tftp: too many transfers, request dropped", "peer", peer, "transfers", len(s.places.busy))
}

func (s *Server) end(peer netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, a := &s.places, peer.Addr()
	if !p.busy[peer] {
		p.unknown--
		less(p.subnets, subnetOf(a))
	}
	delete(p.busy, peer)
	less(p.peers, a)
}

// less decrements a count, and removes it at 0.
func less[K comparable](m map[K]int, k K) {
	if m[k]--; m[k] <= 0 {
		delete(m, k)
	}
}

// lines limits log lines that any packet can cause: one line of each kind a minute, with the number of lines that
// were left out before it.
type lines struct {
	mu    sync.Mutex
	kinds map[string]*line // as many as there are calls of warn
}

type line struct {
	at   time.Time
	more int
}

// warn logs a line that many packets can cause.
func (s *Server) warn(msg string, args ...any) {
	s.lines.mu.Lock()
	defer s.lines.mu.Unlock()
	if s.lines.kinds == nil {
		s.lines.kinds = map[string]*line{}
	}
	l, now := s.lines.kinds[msg], time.Now()
	if l == nil {
		l = &line{}
		s.lines.kinds[msg] = l
	}
	if now.Sub(l.at) < time.Minute {
		l.more++
		s.log().Debug(msg, args...)
		return
	}
	s.log().Warn(msg, append(args, "left_out", l.more)...)
	*l = line{at: now}
}
