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
type peerSet uint32

const peerSlots = 32

// pop takes the lowest one out; the set is not empty.
func (x *peerSet) pop() int {
	i := bits.TrailingZeros32(uint32(*x))
	*x &= *x - 1
	return i
}

func (x peerSet) count() int { return bits.OnesCount32(uint32(x)) }

// known is a peer that this node knows. What it has stands with the pieces.
type knownPeer struct {
	addr        netip.AddrPort
	bit         peerSet       // its own
	failedSlow  bool          // the first transfer that failed was slow
	transfers   int           // transfers from it that run
	urgentAfter time.Duration // it is not asked before this moment: it was busy
	askAfter    time.Duration // nor before this one for what no read waits for
	refusals    int           // how often in a row it was
	strikes     int           // how often it was slow or failed
	usualTime   time.Duration // what its transfers usually take
	samples     int           // how many of them there were, at most lagLeast
	failedAt    time.Duration // when the first one failed, while it is doubted
	probeAfter  time.Duration // it is not probed before this moment
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

// place is a number of a slot.
type slot uint8

// home is the place where a peer stands if it is free; else it is the next one that is.
func homeSlot(a netip.AddrPort) slot {
	b := a.Addr().As16()
	return (slot(b[15]) ^ slot(b[14]) ^ slot(a.Port())) % peerSlots
}

// Meet adds peers: those that the tracker named, and those that came by themselves. It returns the ones that are
// new; the caller watches what they have.
func (s *Fetcher) AddPeers(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	return s.addPeers(now, maxPeers, addrs)
}

// MeetMore is Meet for those that have what a read waits for; there is room for a few when no other is met any more.
func (s *Fetcher) AddUrgentPeers(now time.Duration, addrs ...netip.AddrPort) []netip.AddrPort {
	return s.addPeers(now, maxPeersUrgent, addrs)
}

func (s *Fetcher) addPeers(now time.Duration, most int, addrs []netip.AddrPort) []netip.AddrPort {
	var fresh []netip.AddrPort
	for _, a := range addrs {
		if s.Peers() >= most || a == s.o.Self || !a.IsValid() || s.find(a) != nil || s.banned[a.Addr()] ||
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
			s.unheardUntil = now + hedgeMin
		}
		fresh = append(fresh, a)
	}
	return fresh
}

// at is how many peers with an address are known.
func (s *Fetcher) peersAt(a netip.Addr) (n int) {
	for rest := s.used; rest != 0; {
		if s.peers[rest.pop()].addr.Addr() == a {
			n++
		}
	}
	return n
}

// Peers is how many peers are known.
func (s *Fetcher) Peers() int { return s.used.count() }

// Social tells whether there are others, or were, and a tracker that knows what they have: then loose objects may
// be had of peers.
func (s *Fetcher) Sharing() bool {
	s.everMet = s.everMet || s.Peers() > 0
	return s.everMet && s.tracker
}

// Late is how long the tracker says that word may be on its way; 0: no longer than usual.
func (s *Fetcher) AnnounceDelay() time.Duration { return s.delay }

// Haves takes all that a peer has. What does not fit the pack is ignored.
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

// Got takes one more piece that a peer has, and tells whether Next may have something to do with it.
func (s *Fetcher) PeerGot(a netip.AddrPort, piece int) bool {
	k := s.find(a)
	if k == nil || piece < 0 || piece >= s.o.Pieces || s.pieces[piece].holders&k.bit != 0 {
		return false
	}
	st := &s.pieces[piece]
	st.holders |= k.bit
	return s.fromPeers < s.o.PeerFetches && st.transfers == 0 && !s.have.Has(piece)
}

// WordWait is how long word that this node has a piece may wait for other word. Who lacks what several have is in
// no hurry to hear of one more, the less the more have it; on a slow link, where a word costs as much as fifty
// times its bytes, others come meanwhile.
func (s *Fetcher) HaveDelay(piece int) time.Duration {
	holders := s.pieces[piece].holders.count()
	if holders < commonHolders {
		return 0
	}
	return s.peerTime * time.Duration(holders) / haveDelayPart
}

// Wanting tells whether there is anything that is still to come.
func (s *Fetcher) Wanting() bool {
	s.fillWindow()
	return len(s.window)+len(s.transfers)+len(s.urgent) > 0
}

// Left forgets a peer that went away. Its transfers fail by themselves.
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

// forgetAll forgets all peers of an address, whatever their ports.
func (s *Fetcher) forgetAll(a netip.Addr) {
	for rest := s.used; rest != 0; {
		if k := &s.peers[rest.pop()]; k.addr.Addr() == a {
			s.forget(k)
		}
	}
}

// Gone takes word of a peer that it let go of a piece.
func (s *Fetcher) PeerDropped(a netip.AddrPort, piece int) {
	if k := s.find(a); k != nil && piece < s.o.Pieces {
		s.pieces[piece].holders &^= k.bit
	}
}

// strike notes that a peer was slow or failed; the second time it is left for a while.
func (s *Fetcher) strike(now time.Duration, k *knownPeer, slow bool) {
	k.strikes++
	k.urgentAfter = now + max(busyWaitMin, s.peerTime)
	k.askAfter = k.urgentAfter
	if k.strikes >= maxStrikes {
		s.avoid(now, k, AvoidedPeer{Peer: k.addr, Slow: slow})
	}
}

// lag takes the time of a transfer from a peer. One whose transfers all take much longer than those of others is
// left: its pieces would be waited for as long as it is the only one that is known to have them.
func (s *Fetcher) trackSpeed(now time.Duration, k *knownPeer, took time.Duration) {
	if s.isSlow(took) {
		s.noteFailure(now, k, true)
	}
	k.usualTime, k.samples = smooth(k.usualTime, took), min(k.samples+1, laggardSamples)
	if k.samples == laggardSamples && s.isSlow(k.usualTime) {
		s.avoid(now, k, AvoidedPeer{Peer: k.addr, Slow: true})
	}
}

// leave asks nothing of a peer for a while.
func (s *Fetcher) avoid(now time.Duration, k *knownPeer, why AvoidedPeer) {
	s.avoided[k.addr] = now + avoidTime
	s.step.Avoided = append(s.step.Avoided, why)
	s.forget(k)
}

// leftNow are the peers that are left at this moment; of many, the last ones.
func (s *Fetcher) avoidedNow(now time.Duration) (out []netip.AddrPort) {
	for a, until := range s.avoided {
		if until > now {
			out = append(out, a)
		} else {
			delete(s.avoided, a)
		}
	}
	slices.SortFunc(
		out,
		func(a, b netip.AddrPort) int { return cmp.Or(cmp.Compare(s.avoided[b], s.avoided[a]), a.Compare(b)) },
	)
	return out[:min(len(out), maxAvoided)]
}

// Accuse drops a peer that sent wrong bytes, for as long as this node lives, and has it reported.
func (s *Fetcher) BanCorrupt(a netip.AddrPort) {
	if s.banned[a.Addr()] {
		return
	}
	s.banned[a.Addr()] = true
	s.step.Corrupt = append(s.step.Corrupt, a)
	s.forgetAll(a.Addr())
}

// Ban drops an address that the tracker says is banned for all.
func (s *Fetcher) Ban(a netip.Addr) {
	s.banned[a] = true
	s.forgetAll(a)
}

// Quit forgets all peers, and the tracker: what is still wanted comes from the origin.
func (s *Fetcher) LeaveSwarm(now time.Duration) {
	for rest := s.used; rest != 0; {
		s.forget(&s.peers[rest.pop()])
	}
	s.SetTracker(now, false)
}

// Banned tells whether nothing is taken from, or given to, an address.
func (s *Fetcher) Banned(a netip.Addr) bool { return s.banned[a] }
