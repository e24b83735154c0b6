package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// swarmView is the content of the swarm's page: where nodes got their bytes from, as they report it.
type swarmView struct {
	Sources []source // of the latest boots of all nodes
	Root    []source // the same without kernel and initramfs: what the swarm can carry
	Groups  []swarmGroup
	Nodes   []swarmNode // nodes whose reads waited or that rejected bytes, the worst first
	Loads   api.Loads
	Boots   int
}

type swarmGroup struct {
	Name    string
	Policy  string
	Nodes   int
	Sources []source
}

type swarmNode struct {
	Name     string
	Stalled  time.Duration
	Rejected int64
	Peers    float64
}

// worst is how many nodes the swarm's page lists.
const worst = 20

func (d *Dashboard) swarmPage(r *http.Request) (view, error) {
	ctx := r.Context()
	nodes, err := d.API.Nodes(ctx, "")
	if err != nil {
		return view{}, err
	}
	groups, err := d.API.Groups(ctx)
	if err != nil {
		return view{}, err
	}
	status, err := d.API.Status(ctx)
	if err != nil {
		return view{}, err
	}
	v := swarmView{Loads: status.Loads}
	all, by := map[string]int64{}, map[string]map[string]int64{}
	count := map[string]int{}
	for _, n := range nodes {
		if n.Boot == nil {
			continue
		}
		v.Boots++
		count[n.Group]++
		bytes := bytesOf(n)
		addBytes(all, bytes)
		if by[n.Group] == nil {
			by[n.Group] = map[string]int64{}
		}
		addBytes(by[n.Group], bytes)
		if s := n.Status; s != nil && (s.Stalled >= time.Second || s.Rejected > 0) {
			v.Nodes = append(v.Nodes, swarmNode{n.Name, s.Stalled, s.Rejected, peerShare(bytes)})
		}
	}
	v.Sources, v.Root = sources(all), sources(rootBytes(all))
	for _, g := range groups {
		if count[g.Name] > 0 {
			v.Groups = append(
				v.Groups,
				swarmGroup{
					g.Name,
					string(fleet.ValueOf(g.Peers).Effective()),
					count[g.Name],
					sources(rootBytes(by[g.Name])),
				},
			)
		}
	}
	slices.SortFunc(v.Nodes, func(a, b swarmNode) int {
		return cmp.Or(
			cmp.Compare(b.Rejected, a.Rejected),
			cmp.Compare(b.Stalled, a.Stalled),
			strings.Compare(a.Name, b.Name),
		)
	})
	v.Nodes = v.Nodes[:min(len(v.Nodes), worst)]
	return view{template: "swarm.html", title: "Swarm", live: "tick=1", data: v}, nil
}

// bytesOf returns the bytes that a node received. Its last status counts if it reports more than its boot did.
func bytesOf(n api.Node) map[string]int64 {
	out := map[string]int64{}
	addBytes(out, n.Boot.Bytes)
	if n.Status != nil {
		for source, b := range n.Status.Bytes {
			out[source] = max(out[source], b)
		}
	}
	return out
}

func addBytes(to, from map[string]int64) {
	for source, n := range from {
		to[source] += n
	}
}

// rootBytes returns bytes without those that are sent before there is a root.
func rootBytes(bytes map[string]int64) map[string]int64 {
	out := map[string]int64{}
	addBytes(out, bytes)
	delete(out, trace.SourceK)
	delete(out, trace.SourceNeighbour)
	return out
}

func peerShare(bytes map[string]int64) float64 {
	sum := bytes["server"] + bytes["peer"]
	if sum == 0 {
		return 0
	}
	return float64(bytes["peer"]) / float64(sum)
}
