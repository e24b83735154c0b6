package swarm

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"
	"time"
)

// slots is a set of places of Swarm.peers, a bit each. There are more places than peers, so that most peers stand
// where find looks first.
type slots uint32

const places = 32

// pop takes the lowest one out; the set is not empty.
func (x *slots) pop() int {
	i := bits.TrailingZeros32(uint32(*x))
	*x &= *x - 1
	return i
}

func (x slots) count() int { return bits.OnesCount32(uint32(x)) }

// known is a peer that this node knows. What it has stands with the pieces.
type known struct {
	addr    netip.AddrPort
	slot    slots         // its own
	lagged  bool          // the first transfer that failed was slow
	flights int           // transfers from it that run
	rest    time.Duration // it is not asked before this moment: it was busy
	calm    time.Duration // nor before this one for what no read waits for
	busy    int           // how often in a row it was
	strikes int           // how often it was slow or failed
	took    time.Duration // what its transfers usually take
	came    int           // how many of them there were, at most lagLeast
	failed  time.Duration // when the first one failed, while it is doubted
	probe   time.Duration // it is not probed before this moment
}

// find returns a peer by its address, nil when it is not known.
func (s *Swarm) find(a netip.AddrPort) *known {
	if !a.IsValid() {
		return nil
	}
	for i := range place(places) {
		if at := (home(a) + i) % places; s.addrs[at] == a {
			return &s.peers[at]
		}
	}
	return nil
}

// place is a number of a slot.
type place uint8

// home is the place where a peer stands if it is free; else it is the next one that is.
func home(a netip.AddrPort) place {
	b := a.Addr().As16()
	return (place(b[15]) ^ place(b[14]) ^ place(a.Port())) % places
}

// Meet adds peers: those that the tracker named, and those that came by themselves. It returns the ones that are
// new; the caller watches what they have.
func (s *Swarm) Meet(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	return s.meet(now, maxPeers, addrs)
}

// MeetMore is Meet for those that have what a read waits for; there is room for a few when no other is met any more.
func (s *Swarm) MeetMore(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	return s.meet(now, mostPeers, addrs)
}

func (s *Swarm) meet(now time.Duration, most int, addrs []netip.AddrPort) []netip.AddrPort {
	var fresh []netip.AddrPort
	for _, a := range addrs {
		if s.Peers() >= most || a == s.o.Self || !a.IsValid() || s.find(a) != nil || s.banned[a.Addr()] ||
			s.left[a] > now ||
			s.at(a.Addr()) >= onePeers {
			continue
		}
		at := home(a)
		for s.used>>at&1 == 1 {
			at = (at + 1) % places
		}
		s.peers[at], s.addrs[at] = known{addr: a, slot: 1 << at}, a
		s.used |= 1 << at
		if s.coming == 0 {
			s.silent |= 1 << at
			s.hear = now + hedgeLeast
		}
		fresh = append(fresh, a)
	}
	return fresh
}

// at is how many peers with an address are known.
func (s *Swarm) at(a netip.Addr) (n int) {
	for rest := s.used; rest != 0; {
		if s.peers[rest.pop()].addr.Addr() == a {
			n++
		}
	}
	return n
}

// Peers is how many peers are known.
func (s *Swarm) Peers() int { return s.used.count() }

// Social tells whether there are others, or were, and a tracker that knows what they have: then loose objects may
// be had of peers.
func (s *Swarm) Social() bool {
	s.met = s.met || s.Peers() > 0
	return s.met && s.tracker
}

// Late is how long the tracker says that word may be on its way; 0: no longer than usual.
func (s *Swarm) Late() time.Duration { return s.late }

// Haves takes all that a peer has. What does not fit the pack is ignored.
func (s *Swarm) Haves(a netip.AddrPort, b Bitmap) {
	k := s.find(a)
	if k == nil || !b.fits(s.o.Pieces) {
		return
	}
	s.silent &^= k.slot
	for p := range s.pieces {
		if b.Has(p) {
			s.pieces[p].holders |= k.slot
		}
	}
}

// Got takes one more piece that a peer has, and tells whether Next may have something to do with it.
func (s *Swarm) Got(a netip.AddrPort, piece int) bool {
	k := s.find(a)
	if k == nil || piece < 0 || piece >= s.o.Pieces || s.pieces[piece].holders&k.slot != 0 {
		return false
	}
	st := &s.pieces[piece]
	st.holders |= k.slot
	return s.peerFlights < s.o.PeerFetches && st.flights == 0 && !s.have.Has(piece)
}

// WordWait is how long word that this node has a piece may wait for other word. Who lacks what several have is in
// no hurry to hear of one more, the less the more have it; on a slow link, where a word costs as much as fifty
// times its bytes, others come meanwhile.
func (s *Swarm) WordWait(piece int) time.Duration {
	holders := s.pieces[piece].holders.count()
	if holders < commonLeast {
		return 0
	}
	return s.typical * time.Duration(holders) / wordPart
}

// Wanting tells whether there is anything that is still to come.
func (s *Swarm) Wanting() bool {
	s.look()
	return len(s.window)+len(s.flights)+len(s.demands) > 0
}

// Left forgets a peer that went away. Its transfers fail by themselves.
func (s *Swarm) Left(a netip.AddrPort) {
	if k := s.find(a); k != nil {
		s.forget(k)
	}
}

func (s *Swarm) forget(k *known) {
	for p := range s.pieces {
		s.pieces[p].holders &^= k.slot
	}
	i := bits.TrailingZeros32(uint32(k.slot))
	s.used &^= k.slot
	s.silent &^= k.slot
	s.doubted &^= k.slot
	s.peers[i], s.addrs[i] = known{}, netip.AddrPort{}
}

// forgetAll forgets all peers of an address, whatever their ports.
func (s *Swarm) forgetAll(a netip.Addr) {
	for rest := s.used; rest != 0; {
		if k := &s.peers[rest.pop()]; k.addr.Addr() == a {
			s.forget(k)
		}
	}
}

// Gone takes word of a peer that it let go of a piece.
func (s *Swarm) Gone(a netip.AddrPort, piece int) {
	if k := s.find(a); k != nil && piece < s.o.Pieces {
		s.pieces[piece].holders &^= k.slot
	}
}

// strike notes that a peer was slow or failed; the second time it is left for a while.
func (s *Swarm) strike(now time.Duration, k *known, slow bool) {
	k.strikes++
	k.rest = now + max(restLeast, s.typical)
	k.calm = k.rest
	if k.strikes >= strikesOut {
		s.leave(now, k, Left{Peer: k.addr, Slow: slow})
	}
}

// lag takes the time of a transfer from a peer. One whose transfers all take much longer than those of others is
// left: its pieces would be waited for as long as it is the only one that is known to have them.
func (s *Swarm) lag(now time.Duration, k *known, took time.Duration) {
	if s.lags(took) {
		s.failed(now, k, true)
	}
	k.took, k.came = smooth(k.took, took), min(k.came+1, lagLeast)
	if k.came == lagLeast && s.lags(k.took) {
		s.leave(now, k, Left{Peer: k.addr, Slow: true})
	}
}

// leave asks nothing of a peer for a while.
func (s *Swarm) leave(now time.Duration, k *known, why Left) {
	s.left[k.addr] = now + leftFor
	s.step.Left = append(s.step.Left, why)
	s.forget(k)
}

// leftNow are the peers that are left at this moment; of many, the last ones.
func (s *Swarm) leftNow(now time.Duration) (out []netip.AddrPort) {
	for a, until := range s.left {
		if until > now {
			out = append(out, a)
		} else {
			delete(s.left, a)
		}
	}
	slices.SortFunc(
		out,
		func(a, b netip.AddrPort) int { return cmp.Or(cmp.Compare(s.left[b], s.left[a]), a.Compare(b)) },
	)
	return out[:min(len(out), maxLeft)]
}

// Accuse drops a peer that sent wrong bytes, for as long as this node lives, and has it reported.
func (s *Swarm) Accuse(a netip.AddrPort) {
	if s.banned[a.Addr()] {
		return
	}
	s.banned[a.Addr()] = true
	s.step.Report = append(s.step.Report, a)
	s.forgetAll(a.Addr())
}

// Ban drops an address that the tracker says is banned for all.
func (s *Swarm) Ban(a netip.Addr) {
	s.banned[a] = true
	s.forgetAll(a)
}

// Quit forgets all peers, and the tracker: what is still wanted comes from the origin.
func (s *Swarm) Quit(now time.Duration) {
	for rest := s.used; rest != 0; {
		s.forget(&s.peers[rest.pop()])
	}
	s.Tracking(now, false)
}

// Banned tells whether nothing is taken from, or given to, an address.
func (s *Swarm) Banned(a netip.Addr) bool { return s.banned[a] }
