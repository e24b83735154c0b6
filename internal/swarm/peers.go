package swarm

import (
	"cmp"
	"math/bits"
	"net/netip"
	"sort"
	"time"
)

// peerSet is a set of slots of Fetcher.peers, a bit each. There are more slots than peers, so that most peers stand
// where find looks first.
type peerSet uint32

const peerSlots = 32

// pop removes the lowest slot; the set is not empty.
func (x *peerSet) pop() int {
	i := bits.TrailingZeros32(uint32(*x))
	*x &= *x - 1
	return i
}

func (x peerSet) count() int { return bits.OnesCount32(uint32(x)) }

// knownPeer is a peer of this node. What it has is noted with the pieces.
type knownPeer struct {
	addr        netip.AddrPort
	bit         peerSet       // its own slot
	failedSlow  bool          // its first failure was a slow transfer
	transfers   int           // running ones
	urgentAfter time.Duration // not asked before, because it was busy
	askAfter    time.Duration // nor before this for a piece that is not urgent
	refusals    int           // in a row
	strikes     int           // slow or failed transfers
	failedAt    time.Duration // first failure, while it is not reported
	probeAfter  time.Duration // not probed before
}

// find returns a peer by its address, nil when it is not known.
func (s *Fetcher) find(a netip.AddrPort) *knownPeer {
	if !a.IsValid() {
		return nil
	}
	for i := range slot(peerSlots) {
		if at := (homeSlot(a) + i) % peerSlots; s.addrs[at] == a {
			return &s.peers[at]
		}
	}
	return nil
}

// slot is the number of a slot.
type slot uint8

// homeSlot is where a peer stands if that slot is free; else it is the next free one.
func homeSlot(a netip.AddrPort) slot {
	b := a.Addr().As16()
	return (slot(b[15]) ^ slot(b[14]) ^ slot(a.Port())) % peerSlots
}

// AddPeers adds the peers that the tracker named, or that connected to this node. It returns the new ones, whose
// pieces the caller watches.
func (s *Fetcher) AddPeers(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	var fresh []netip.AddrPort
	for _, a := range addrs {
		if s.Peers() >= maxPeers || a == s.o.Self || !a.IsValid() || s.find(a) != nil || s.banned[a.Addr()] ||
			s.avoided[a] > now ||
			s.peersAt(a.Addr()) >= maxPeersPerAddress {
			continue
		}
		at := homeSlot(a)
		for s.used>>at&1 == 1 {
			at = (at + 1) % peerSlots
		}
		s.peers[at], s.addrs[at] = knownPeer{addr: a, bit: 1 << at}, a
		s.used |= 1 << at
		if s.retryAfter == 0 {
			s.unheard |= 1 << at
			s.unheardUntil = now + minHedge
		}
		fresh = append(fresh, a)
	}
	return fresh
}

// peersAt returns the number of known peers with an address.
func (s *Fetcher) peersAt(a netip.Addr) (n int) {
	for rest := s.used; rest != 0; {
		if s.peers[rest.pop()].addr.Addr() == a {
			n++
		}
	}
	return n
}

// Peers returns the number of known peers.
func (s *Fetcher) Peers() int { return s.used.count() }

// Sharing reports whether there is a tracker, and there are or were peers. Then peers may have demand objects.
func (s *Fetcher) Sharing() bool {
	s.everMet = s.everMet || s.Peers() > 0
	return s.everMet && s.tracker
}

// AnnounceDelay is the delay that the tracker told; 0: as usual.
func (s *Fetcher) AnnounceDelay() time.Duration { return s.delay }

// PeerHas takes all pieces that a peer has. A bitmap that does not fit the pack is ignored.
func (s *Fetcher) PeerHas(a netip.AddrPort, b Bitmap) {
	k := s.find(a)
	if k == nil || !b.fits(s.o.Pieces) {
		return
	}
	s.unheard &^= k.bit
	for p := range s.pieces {
		if b.Has(p) {
			s.pieces[p].holders |= k.bit
		}
	}
}

// PeerGot takes one more piece of a peer, and tells whether Next may have something to do with it.
func (s *Fetcher) PeerGot(a netip.AddrPort, piece int) bool {
	k := s.find(a)
	if k == nil || piece < 0 || piece >= s.o.Pieces || s.pieces[piece].holders&k.bit != 0 {
		return false
	}
	st := &s.pieces[piece]
	st.holders |= k.bit
	return s.fromPeers < peerFetches && st.transfers == 0 && !s.have.Has(piece)
}

// HaveDelay is how long the news that this node has a piece may wait for other news to travel with. The more peers
// have the piece, the less they need one more holder; on a slow link a message costs fifty times its payload.
func (s *Fetcher) HaveDelay(piece int) time.Duration {
	holders := s.pieces[piece].holders.count()
	if holders < commonHolders {
		return 0
	}
	return s.peerTime * time.Duration(holders) / haveDelayPart
}

// Wanting reports whether any piece is still to come.
func (s *Fetcher) Wanting() bool {
	s.fillWindow()
	return len(s.window)+len(s.transfers)+len(s.urgent) > 0
}

// PeerLeft forgets a peer that went away. Its transfers fail by themselves.
func (s *Fetcher) PeerLeft(a netip.AddrPort) {
	if k := s.find(a); k != nil {
		s.forget(k)
	}
}

func (s *Fetcher) forget(k *knownPeer) {
	for p := range s.pieces {
		s.pieces[p].holders &^= k.bit
	}
	i := bits.TrailingZeros32(uint32(k.bit))
	s.used &^= k.bit
	s.unheard &^= k.bit
	s.failing &^= k.bit
	s.peers[i], s.addrs[i] = knownPeer{}, netip.AddrPort{}
}

// forgetAll forgets all peers of an address.
func (s *Fetcher) forgetAll(a netip.Addr) {
	for rest := s.used; rest != 0; {
		if k := &s.peers[rest.pop()]; k.addr.Addr() == a {
			s.forget(k)
		}
	}
}

// PeerDropped notes that a peer has a piece no more.
func (s *Fetcher) PeerDropped(a netip.AddrPort, piece int) {
	if k := s.find(a); k != nil && piece < s.o.Pieces {
		s.pieces[piece].holders &^= k.bit
	}
}

// strike notes a slow or failed transfer; at the second one the peer is avoided.
func (s *Fetcher) strike(now time.Duration, k *knownPeer, slow bool) {
	k.strikes++
	s.rest(now, k)
	if k.strikes >= maxStrikes {
		s.avoid(now, k, AvoidedPeer{Peer: k.addr, Slow: slow})
	}
}

// avoid asks nothing of a peer for a while.
func (s *Fetcher) avoid(now time.Duration, k *knownPeer, why AvoidedPeer) {
	s.avoided[k.addr] = now + avoidTime
	s.step.Avoided = append(s.step.Avoided, why)
	s.forget(k)
}

// avoidedNow returns the peers that are avoided now; of many, the last ones.
func (s *Fetcher) avoidedNow(now time.Duration) (out []netip.AddrPort) {
	for a, until := range s.avoided {
		if until > now {
			out = append(out, a)
		} else {
			delete(s.avoided, a)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(s.avoided[b], s.avoided[a]), a.Compare(b)) < 0
	})
	return out[:min(len(out), maxAvoided)]
}

// BanCorrupt bans a peer that sent wrong bytes, for the life of this node, and has it reported.
func (s *Fetcher) BanCorrupt(a netip.AddrPort) {
	if s.banned[a.Addr()] {
		return
	}
	s.banned[a.Addr()] = true
	s.step.Corrupt = append(s.step.Corrupt, a)
	s.forgetAll(a.Addr())
}

// Ban bans an address that the tracker says is banned for all.
func (s *Fetcher) Ban(a netip.Addr) {
	s.banned[a] = true
	s.forgetAll(a)
}

// LeaveSwarm forgets all peers and the tracker: the rest comes from the origin.
func (s *Fetcher) LeaveSwarm(now time.Duration) {
	for rest := s.used; rest != 0; {
		s.forget(&s.peers[rest.pop()])
	}
	s.SetTracker(now, false)
}

// Banned reports whether nothing is taken from, or sent to, an address.
func (s *Fetcher) Banned(a netip.Addr) bool { return s.banned[a] }
