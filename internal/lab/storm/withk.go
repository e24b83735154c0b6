package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
)

// runK is what a run has whose nodes load K first, by the turns of the real server. Times are in seconds since
// power-on, sizes in bytes, rates in bits a second.
type runK struct {
	Bytes    int64 `json:"bytes"`     // kernel and initramfs, of the node that loaded the most
	Pieces   int   `json:"pieces"`    // of the boot pack, which may be another than that of other storms
	Uplink   int64 `json:"uplink"`    // what the server takes its link for
	NodeLink int64 `json:"node_link"` // and those of nodes
	Slots    int   `json:"slots"`     // nodes that it lets load at the same time, by that
	// that did at most, as they saw it: one whose last bytes are on their way has no slot any more
	Together int     `json:"together"`
	First    float64 `json:"first"` // the first node had K
	Last     float64 `json:"last"`
}

// nodeK is how a node of such a run loaded K.
type nodeK struct {
	Bytes    int64   `json:"bytes"`
	Admitted float64 `json:"turn"` // it may load
	There    float64 `json:"there"`
	Asked    int     `json:"asked"` // for scripts
	Slept    float64 `json:"slept"` // since scripts said so
}

// withKSystems are those of which the simulator knows what they do after K.
var withKSystems = []string{unicastName, bestName()}

// checkK returns what is wrong with --k.
func (s *Storm) checkK() error {
	switch other := slices.IndexFunc(s.wanted,
		func(name string) bool { return !slices.Contains(withKSystems, name) }); {
	case !s.k:
		return nil
	case len(s.faults) > 0 || s.guests > 0 || s.tell || s.change.Delay > 0 || s.change.Cold:
		return errors.New("--k goes without --fault, --guests, --tell, --delay and --cold")
	case other >= 0:
		return fmt.Errorf("--k: K is loaded before %v, and not before %s", withKSystems, s.wanted[other])
	case s.rate == 0 && s.sim == "":
		return errors.New(
			"--k: name the rate of links with --rate; what is chosen is for storms in which all links are full " +
				"from the beginning, and K would take an hour",
		)
	}
	return nil
}

// linkFlags are what the server is told of links.
func (s *Storm) linkFlags() []string { return []string{"--uplink", s.job.Server.String()} }

// tellLink has a node register with what its link can receive, since the server's turns depend on it. It loads by a
// link without limit.
func (s *Storm) tellLink(ctx context.Context, n *node, j job) error {
	if err := s.Star.Limit(freeLink, freeLink); err != nil {
		return err
	}
	n.rate = j.Node
	if _, err := n.load(ctx); err != nil {
		return fmt.Errorf("tell the server of links: %w", err)
	}
	return s.Star.Limit(j.Server, j.Node)
}

// readyK has the server pack its agent, which it does once and keeps: no storm shall wait for that.
func (s *Storm) readyK(ctx context.Context, m *testbed.Material) error {
	nodes, err := s.nodesOf(m, job{Nodes: 1})
	if err != nil {
		return err
	}
	if err := s.acquaint(ctx, m, nodes); err != nil {
		return err
	}
	f, err := nodes[0].loader()
	if err != nil {
		return err
	}
	k, err := f.Admitted(ctx)
	if err != nil {
		return err
	}
	_, err = f.Size(ctx, k.Initramfs)
	return err
}

// loadAll is what the server says of those who will load.
func (s *Storm) loadAll(ctx context.Context, pieces int) (*runK, error) {
	st, err := s.Site.API.Status(ctx)
	if err != nil {
		return nil, err
	}
	return &runK{
		Pieces:   pieces,
		Uplink:   st.Loads.Uplink * 8,
		NodeLink: st.Loads.NodeLink * 8,
		Slots:    st.Loads.Slots,
	}, nil
}

// patienceK is how much longer a run may take with K.
func patienceK(m *testbed.Material, j job) time.Duration {
	return time.Duration(
		3 * float64(
			j.Nodes,
		) * float64(
			m.Kernel.Every,
		) * 8 / (bench.Eta * float64(min(j.Server, j.Node))) * float64(
			time.Second,
		),
	)
}

// loadK loads K as the node's firmware does, and keeps nothing of it.
func (n *node) loadK(ctx context.Context, begin time.Time) (*nodeK, error) {
	f, err := n.loader()
	if err != nil {
		return nil, err
	}
	script, err := f.Admitted(ctx)
	if err != nil {
		return nil, err
	}
	k := &nodeK{Admitted: time.Since(begin).Seconds(), Asked: f.Asked, Slept: f.Slept.Seconds()}
	kernel, err := f.Fetch(ctx, script.Kernel, io.Discard)
	if err != nil {
		return nil, err
	}
	if kernel != n.Material.Manifest.Kernel.Size {
		return nil, fmt.Errorf("a kernel of %d bytes, and not %d", kernel, n.Material.Manifest.Kernel.Size)
	}
	initramfs, err := f.Fetch(ctx, script.Initramfs, io.Discard)
	k.Bytes, k.There = kernel+initramfs, time.Since(begin).Seconds()
	return k, err
}

// finish computes what follows from the nodes.
func (k *runK) finish(each []nodeRun) {
	for _, n := range each {
		if n.K == nil {
			continue
		}
		k.Bytes, k.Last = max(k.Bytes, n.K.Bytes), max(k.Last, n.K.There)
		if k.First == 0 || n.K.There < k.First {
			k.First = n.K.There
		}
		k.Together = max(k.Together, loadingAt(n.K.Admitted, each))
	}
}

// loadingAt is how many nodes load at a moment.
func loadingAt(at float64, each []nodeRun) (count int) {
	for _, n := range each {
		if n.K != nil && n.K.Admitted <= at && at < n.K.There {
			count++
		}
	}
	return count
}

// serverBytesK is what the server's link has to carry: K for each node, and the root for all of them together or,
// where they share nothing, for each.
func (r stormRun) serverBytesK() int64 {
	root := r.BootSet
	if r.System == unicastName {
		root *= int64(r.Nodes)
	}
	return int64(r.Nodes)*r.K.Bytes + root
}

// boundK is how long the storm takes at least, in seconds: by the server's link, or by a node's own.
func (r stormRun) boundK() float64 {
	return max(
		bench.Unit(r.serverBytesK(), testkit.Rate(r.ServerRate)),
		bench.Unit(r.K.Bytes+r.BootSet, testkit.Rate(r.NodeRate)),
	).Seconds()
}
