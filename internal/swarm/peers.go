package swarm

import (
	"cmp"
	"math/bits"
	"net/netip"
	"sort"
	"time"
)

// peerSet is a set of slots of Fetcher.peers, one bit each. There are more slots than peers, so that find hits most
// peers at their home slot.
type peerSet uint32

const peerSlots = 32

// pop removes and returns the lowest slot. The set must not be empty.
func (x *peerSet) pop() int {
	i := bits.TrailingZeros32(uint32(*x))
	*x &= *x - 1
	return i
}

func (x peerSet) count() int { return bits.OnesCount32(uint32(x)) }

// knownPeer is a peer of this node. Its pieces are noted in piece.holders.
type knownPeer struct {
	addr        netip.AddrPort
	bit         peerSet       // its own slot
	failedSlow  bool          // its first failure was a slow transfer
	transfers   int           // running ones
	urgentAfter time.Duration // not asked for an urgent piece before, because it was busy
	askAfter    time.Duration // not asked for another piece before
	refusals    int           // in a row
	strikes     int           // slow or failed transfers
	failedAt    time.Duration // time of the first failure, until it is reported
	probeAfter  time.Duration // not probed before
}

// find returns a peer by its address, or nil.
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

// slot is an index of Fetcher.peers.
type slot uint8

// homeSlot returns the preferred slot of an address. If the slot is taken, the peer gets the next free one.
func homeSlot(a netip.AddrPort) slot {
	b := a.Addr().As16()
	return (slot(b[15]) ^ slot(b[14]) ^ slot(a.Port())) % peerSlots
}

// AddPeers adds peers that the tracker named or that connected to this node. It returns the new ones; the caller must
// watch their pieces.
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
			s.silent |= 1 << at
			s.silentUntil = now + minHedge
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

// Sharing reports whether there is a tracker and the node has or had peers. Then peers may have demand objects.
func (s *Fetcher) Sharing() bool {
	s.everMet = s.everMet || s.Peers() > 0
	return s.everMet && s.tracker
}

// AnnounceDelay returns the delay that the tracker told; 0: the usual one.
func (s *Fetcher) AnnounceDelay() time.Duration { return s.delay }

// PeerHas notes all pieces of a peer. A bitmap of the wrong length is ignored.
func (s *Fetcher) PeerHas(a netip.AddrPort, b Bitmap) {
	k := s.find(a)
	if k == nil || !b.fits(s.o.Pieces) {
		return
	}
	s.silent &^= k.bit
	for p := range s.pieces {
		if b.Has(p) {
			s.pieces[p].holders |= k.bit
		}
	}
}

// PeerGot notes one more piece of a peer, and tells whether to call Next.
func (s *Fetcher) PeerGot(a netip.AddrPort, piece int) bool {
	k := s.find(a)
	if k == nil || piece < 0 || piece >= s.o.Pieces || s.pieces[piece].holders&k.bit != 0 {
		return false
	}
	st := &s.pieces[piece]
	st.holders |= k.bit
	return s.fromPeers < peerFetches && st.transfers == 0 && !s.have.Has(piece)
}

// HaveDelay is how long the news of a new piece may wait, so that it is sent with other news. The more peers have the
// piece, the less they need another holder. A message costs about fifty times its payload.
func (s *Fetcher) HaveDelay(piece int) time.Duration {
	holders := s.pieces[piece].holders.count()
	if holders < commonHolders {
		return 0
	}
	return s.peerTime * time.Duration(holders) / haveDelayPart
}

// Wanting reports whether the node still waits for a piece.
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
	s.silent &^= k.bit
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

// PeerDropped notes that a peer no longer has a piece.
func (s *Fetcher) PeerDropped(a netip.AddrPort, piece int) {
	if k := s.find(a); k != nil && piece < s.o.Pieces {
		s.pieces[piece].holders &^= k.bit
	}
}

// strike notes a slow or failed transfer. After maxStrikes the peer is avoided.
func (s *Fetcher) strike(now time.Duration, k *knownPeer, slow bool) {
	k.strikes++
	s.rest(now, k)
	if k.strikes >= maxStrikes {
		s.avoid(now, k, AvoidedPeer{Peer: k.addr, Slow: slow})
	}
}

// avoid stops requests to a peer for avoidTime.
func (s *Fetcher) avoid(now time.Duration, k *knownPeer, why AvoidedPeer) {
	s.avoided[k.addr] = now + avoidTime
	s.step.Avoided = append(s.step.Avoided, why)
	s.forget(k)
}

// avoidedNow returns the peers that are avoided now, at most the latest maxAvoided.
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

// BanCorrupt bans and reports a peer that sent wrong bytes. The ban lasts as long as the Fetcher.
func (s *Fetcher) BanCorrupt(a netip.AddrPort) {
	if s.banned[a.Addr()] {
		return
	}
	s.banned[a.Addr()] = true
	s.step.Corrupt = append(s.step.Corrupt, a)
	s.forgetAll(a.Addr())
}

// Ban bans an address that the tracker has banned for all nodes.
func (s *Fetcher) Ban(a netip.Addr) {
	s.banned[a] = true
	s.forgetAll(a)
}

// LeaveSwarm forgets all peers and the tracker. The missing pieces come from the origin.
func (s *Fetcher) LeaveSwarm(now time.Duration) {
	for rest := s.used; rest != 0; {
		s.forget(&s.peers[rest.pop()])
	}
	s.SetTracker(now, false)
}

// Banned reports whether an address is banned: nothing is fetched from it or sent to it.
func (s *Fetcher) Banned(a netip.Addr) bool { return s.banned[a] }
