package peer

import (
	"net/netip"
	"slices"
	"time"
)

// known is a peer that this node knows.
type known struct {
	addr    netip.AddrPort
	have    Bitmap
	flights int           // transfers from it that run
	rest    time.Duration // it is not asked before this moment: it was busy
	busy    int           // how often in a row it was
	strikes int           // how often it was slow or failed
}

// find returns a peer by its address, nil when it is not known.
func (s *Swarm) find(a netip.AddrPort) *known {
	for i := range s.addrs {
		if s.addrs[i] == a {
			return s.peers[i]
		}
	}
	return nil
}

// Meet adds peers: those that the tracker named, and those that came by themselves. It returns the ones that are
// new; the caller watches what they have.
func (s *Swarm) Meet(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	var fresh []netip.AddrPort
	for _, a := range addrs {
		if len(s.peers) >= maxPeers || a == s.o.Self || !a.IsValid() || s.find(a) != nil || s.banned[a.Addr()] || s.left[a] > now {
			continue
		}
		s.peers = append(s.peers, &known{addr: a, have: NewBitmap(s.o.Pieces)})
		s.addrs = append(s.addrs, a)
		fresh = append(fresh, a)
	}
	return fresh
}

// Peers is how many peers are known.
func (s *Swarm) Peers() int { return len(s.peers) }

// Haves takes all that a peer has. What does not fit the pack is ignored.
func (s *Swarm) Haves(a netip.AddrPort, b Bitmap) {
	k := s.find(a)
	if k == nil || !b.fits(s.o.Pieces) {
		return
	}
	for p := range s.pieces {
		if b.Has(p) && !k.have.Has(p) {
			k.have.Set(p)
			s.pieces[p].holders++
		}
	}
}

// Got takes one more piece that a peer has, and tells whether Next may have something to do with it.
func (s *Swarm) Got(a netip.AddrPort, piece int) bool {
	k := s.find(a)
	if k == nil || piece < 0 || piece >= s.o.Pieces || k.have.Has(piece) {
		return false
	}
	k.have.Set(piece)
	st := &s.pieces[piece]
	st.holders++
	return !s.have.Has(piece) && st.flights == 0 && s.peerFlights < s.o.PeerFetches
}

// Left forgets a peer that went away. Its transfers fail by themselves.
func (s *Swarm) Left(a netip.AddrPort) {
	if k := s.find(a); k != nil {
		s.forget(k)
	}
}

func (s *Swarm) forget(k *known) {
	for p := range s.pieces {
		if k.have.Has(p) {
			s.pieces[p].holders--
		}
	}
	i := slices.Index(s.peers, k)
	s.peers, s.addrs = slices.Delete(s.peers, i, i+1), slices.Delete(s.addrs, i, i+1)
}

// Gone takes word of a peer that it let go of a piece.
func (s *Swarm) Gone(a netip.AddrPort, piece int) {
	if k := s.find(a); k != nil && k.have.Has(piece) && piece < s.o.Pieces {
		k.have[piece>>3] &^= 1 << (piece & 7)
		s.pieces[piece].holders--
	}
}

// strike notes that a peer was slow or failed; the second time it is left for a while.
func (s *Swarm) strike(now time.Duration, k *known, slow bool) {
	k.strikes++
	k.rest = now + max(restLeast, s.typical)
	if k.strikes >= strikesOut {
		s.left[k.addr] = now + leftFor
		s.step.Left = append(s.step.Left, Left{k.addr, slow})
		s.forget(k)
	}
}

// ban drops a peer that sent wrong bytes, for as long as this node lives, and has it reported.
func (s *Swarm) ban(a netip.AddrPort) {
	if s.banned[a.Addr()] {
		return
	}
	s.banned[a.Addr()] = true
	s.step.Report = append(s.step.Report, a)
	for i := len(s.peers) - 1; i >= 0; i-- { // whatever its port
		if s.peers[i].addr.Addr() == a.Addr() {
			s.forget(s.peers[i])
		}
	}
}

// Ban drops an address that the tracker says is banned for all.
func (s *Swarm) Ban(a netip.Addr) {
	s.banned[a] = true
	for i := len(s.peers) - 1; i >= 0; i-- {
		if s.peers[i].addr.Addr() == a {
			s.forget(s.peers[i])
		}
	}
}

// Quit forgets all peers, and the tracker: what is still wanted comes from the origin.
func (s *Swarm) Quit(now time.Duration) {
	for len(s.peers) > 0 {
		s.forget(s.peers[0])
	}
	s.Tracking(now, false)
}

// Banned tells whether nothing is taken from, or given to, an address.
func (s *Swarm) Banned(a netip.Addr) bool { return s.banned[a] }
