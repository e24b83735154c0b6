package sim

// kQuantum is how many bytes of K pass a link at a time.
const kQuantum = 256 << 10

// Admitted is how many nodes a server sends K to at a time: twice as many as fill its link, so that one that is slow leaves
// no hole.
func (c Config) Admitted() int { return max(1, int(2*c.ServerLink/c.NodeLink)) }

// wantK is firmware that asks for K: it is served or held.
func (f *fleet) wantK(n *node) {
	s := n.home
	if s.admitted >= f.Admitted() {
		s.queue = append(s.queue, n.id)
		return
	}
	s.admitted++
	s.tracker.Busy(s.admitted > f.Admitted()/2) // half of them fill the link
	id := f.newFlow(flow{to: n.id, from: -1 - s.id, unsent: int(f.K), size: int(f.K), quantum: kQuantum, k: true, live: true, admitted: true})
	n.flows = append(n.flows, id)
	f.kSent += f.K
	f.push(id)
}

// kDone is a node that has K, which makes room for the next one.
func (f *fleet) kDone(n *node) {
	s := n.home
	n.k = f.now
	f.at(f.now+f.Start, start, n.id, 0)
	s.admitted--
	s.tracker.Busy(s.admitted > f.Admitted()/2)
	for len(s.queue) > 0 {
		next := f.nodes[s.queue[0]]
		s.queue = s.queue[1:]
		if !next.dead {
			f.wantK(next)
			return
		}
	}
}
