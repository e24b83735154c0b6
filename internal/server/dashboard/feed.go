package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"pando/internal/api"
)

// feedView shows which nodes and servers sent roots to which nodes in a storm.
type feedView struct {
	Boots         int     // number of boots that reported who sent their roots
	Roots         float64 // bytes that the server sent, in average roots
	FromSamePlace float64 // share of nodes' traffic that stayed within a place
	Best          *sender // the node that sent most
	Places        []placeRow
	Nodes         []sender
	Matrix        *matrix // nil: no node received anything from another
}

// sender is one node: what it received, and what it sent.
type sender struct {
	Name, Place         string
	Server, Peers, Gave int64
	Cache               int64 // from its own disk and memory
	Most                []api.Sender
	from                []api.Sender
}

// placeRow is what the nodes of one place received, by source.
type placeRow struct {
	Name    string
	Nodes   int
	Sources []source
}

// newFeed combines the reports of boots.
func newFeed(told []api.Feeding, boots []api.PastBoot) feedView {
	var v feedView
	v.Nodes = sendersOf(told, boots)
	v.Boots = len(v.Nodes)
	at := map[string]int{}
	for i, n := range v.Nodes {
		at[n.Name] = i
	}
	var server, peers, samePlace int64
	for _, n := range v.Nodes {
		server, peers = server+n.Server, peers+n.Peers
		for _, s := range n.from {
			if i, ok := at[s.Node]; ok && s.Node != "" {
				v.Nodes[i].Gave += s.Bytes
				if v.Nodes[i].Place == n.Place {
					samePlace += s.Bytes
				}
			}
		}
	}
	if sum := server + peers; sum > 0 {
		v.Roots = float64(server) * float64(v.Boots) / float64(sum)
	}
	if peers > 0 {
		v.FromSamePlace = float64(samePlace) / float64(peers)
		best := slices.MaxFunc(v.Nodes, func(a, b sender) int { return cmp.Compare(a.Gave, b.Gave) })
		if best.Gave > 0 {
			v.Best = &best
		}
		v.Matrix = newMatrix(v.Nodes, at)
	}
	v.Places = placesOf(v.Nodes, at)
	return v
}

// sendersOf returns the nodes of a storm that reported who sent their roots, sorted by place.
func sendersOf(told []api.Feeding, boots []api.PastBoot) []sender {
	by := map[string]api.PastBoot{}
	for _, b := range boots {
		by[string(b.ID)] = b
	}
	var out []sender
	for _, f := range told {
		b, ok := by[string(f.Boot)]
		if !ok {
			continue
		}
		n := sender{Name: f.Node, Place: f.Place, Cache: b.Bytes["disk"] + b.Bytes["ram"], from: f.From}
		for _, s := range f.From {
			if isPeer(s) {
				n.Peers += s.Bytes
				if len(n.Most) < 3 && s.Node != "" {
					n.Most = append(n.Most, s)
				}
			} else {
				n.Server += s.Bytes
			}
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b sender) int {
		return cmp.Or(strings.Compare(a.Place, b.Place), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(
		out,
		func(a, b sender) bool { return a.Name == b.Name },
	) // of a node that booted twice, the first boot counts
}

// isPeer distinguishes nodes from servers and buckets. A sum of several senders (no name) counts as peers, because a
// node knows few servers.
func isPeer(s api.Sender) bool {
	return s.Node != "" || s.Other == "" || strings.HasPrefix(s.Other, "node at ")
}

// placesOf sums up by place. It returns nothing if there is only one place.
func placesOf(nodes []sender, at map[string]int) []placeRow {
	var out []placeRow
	var bytes []map[string]int64
	for _, n := range nodes {
		if len(out) == 0 || out[len(out)-1].Name != n.Place {
			out, bytes = append(out, placeRow{Name: n.Place}), append(bytes, map[string]int64{})
		}
		last := len(out) - 1
		out[last].Nodes++
		b := bytes[last]
		b["server"] += n.Server
		b["disk"] += n.Cache
		for _, s := range n.from {
			if i, ok := at[s.Node]; ok && nodes[i].Place == n.Place {
				b["near"] += s.Bytes
			} else if isPeer(s) {
				b["peer"] += s.Bytes
			}
		}
	}
	for i := range out {
		out[i].Sources = sources(bytes[i])
		for j, s := range out[i].Sources {
			if s.Name == "peer" {
				out[i].Sources[j].Text = "elsewhere"
			}
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}
