package swarm

import "testing"

// While other requests wait, a request is granted one piece. With a large pack it is granted several, so that no node
// sends hundreds of requests. A node that has just begun gets one: others would wait behind its pieces.
func TestManyPiecesAreGrantedTogether(t *testing.T) {
	for _, x := range []struct{ nodes, pieces, have, most int }{
		{4, 1000, aloneMinPieces, 4}, {10, 1000, aloneMinPieces, 2}, {40, 1000, aloneMinPieces, 1},
		{4, 200, aloneMinPieces, 1}, {4, 1000, 0, 1},
	} {
		tr := newTracker()
		for n := range x.nodes {
			q := PieceRequest{
				Swarm:   "p",
				Node:    at(byte(n)),
				Size:    1000,
				Request: Request{Want: []int{100, 101, 102, 103, 104}, Max: maxGrant, Have: upTo(x.pieces, x.have)},
			}
			tr.Announce(0, Announcement{Swarm: "p", Pieces: x.pieces, Node: q.Node})
			tr.Ask(0, q)
		}
		granted := map[int]bool{}
		for now := 10 * ms; len(tr.queue) > 1 && now < 10_000*ms; now += 10 * ms {
			replies, _ := tr.Step(now)
			for _, r := range replies {
				if len(r.Grant) != x.most && len(r.Grant) > 0 && len(tr.queue) > 0 {
					t.Errorf("%d nodes, %d pieces: %v granted, want %d", x.nodes, x.pieces, r.Grant, x.most)
				}
				for _, p := range r.Grant {
					if granted[p] {
						t.Errorf("%d nodes: piece %d was granted twice", x.nodes, p)
					}
					granted[p] = true
					tr.Sent("p", r.Node, p)
				}
			}
		}
		if len(granted) == 0 {
			t.Errorf("%d nodes, %d pieces: nothing was granted to those who waited", x.nodes, x.pieces)
		}
	}
}
