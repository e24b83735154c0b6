package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/swarm"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// runK describes a run whose nodes load kernel+initrd (K) first, as the real server admits them. Times are seconds
// since power-on, sizes are bytes, rates are bits per second.
type runK struct {
	Bytes    int64 `json:"bytes"`     // kernel and initramfs, largest value of all nodes
	Pieces   int   `json:"pieces"`    // of the boot pack, which may differ from that of other storms
	Uplink   int64 `json:"uplink"`    // rate that the server assumes for its link
	NodeLink int64 `json:"node_link"` // rate that it assumes for nodes' links
	Slots    int   `json:"slots"`     // admission slots that follow from these rates
	// most nodes that loaded at the same time, as seen by the nodes; a node has no slot any more while its last bytes
	// are on their way
	Together int     `json:"together"`
	First    float64 `json:"first"` // when the first node had K
	Last     float64 `json:"last"`
	From     string  `json:"from"`    // who sent it: "neighbours" or "servers"
	Peer     int64   `json:"peer"`    // bytes of all nodes that came from other nodes
	Wrong    int     `json:"wrong"`   // nodes that serve it with wrong bytes
	Refused  int     `json:"refused"` // what other nodes sent, and was refused
}

// nodeK is how one node loaded K.
type nodeK struct {
	Bytes    int64   `json:"bytes"`
	Admitted float64 `json:"turn"` // when it was admitted
	There    float64 `json:"there"`
	Asked    int     `json:"asked"`   // number of script requests
	Slept    float64 `json:"slept"`   // total time that scripts told it to sleep
	Peer     int64   `json:"peer"`    // bytes that came from other nodes
	Refused  int     `json:"refused"` // answers of other nodes that were not what it asked for
}

// withKSystems are the systems whose behaviour after K the simulator models.
var withKSystems = []string{unicastName, bestName()}

// checkK returns an error for a wrong --k.
func (s *Storm) checkK() error {
	switch other := slices.IndexFunc(s.wanted,
		func(name string) bool { return !slices.Contains(withKSystems, name) }); {
	case !s.k:
		return nil
	case s.wrongKernels < 0:
		return fmt.Errorf("--wrong-kernels %d: want a number of nodes", s.wrongKernels)
	case s.kernelFrom != string(fleet.FromNeighbours) && s.kernelFrom != string(fleet.FromServers):
		return fmt.Errorf("--kernel-from is neighbours or servers, not %q", s.kernelFrom)
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

// linkFlags returns the server's flags about its link.
func (s *Storm) linkFlags() []string { return []string{"--uplink", s.job.Server.String()} }

// tellLink registers a node with the rate of its link, because the server's admission depends on that rate. The node
// loads over a link without a limit.
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

// readyK makes the server pack its agent, which it does only once, so that no storm waits for that.
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

// loadAll returns a runK with the server's admission parameters.
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
		From:     s.kernelFrom,
		Wrong:    s.wrongKernels,
	}, nil
}

// patienceK returns how much longer a run may take with K.
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

// loadK loads K as the node's firmware does, and discards it.
func (n *node) loadK(ctx context.Context, begin time.Time) (*nodeK, error) {
	f, err := n.loader()
	if err != nil {
		return nil, err
	}
	script, err := f.Admitted(ctx)
	if err != nil {
		return nil, err
	}
	if script.Verified != nil {
		return n.loadVerified(ctx, f, script.Verified, begin)
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

// loadVerified loads K as a loader does that verifies it, registers the node, and keeps K for others.
func (n *node) loadVerified(
	ctx context.Context,
	f *testkit.Loader,
	v *testkit.VerifiedScript,
	begin time.Time,
) (*nodeK, error) {
	k := &nodeK{Admitted: time.Since(begin).Seconds(), Asked: f.Asked, Slept: f.Slept.Seconds()}
	file, err := os.Create(filepath.Join(n.Dir, "kernel"))
	if err != nil {
		return nil, err
	}
	got, err := f.Load(ctx, v, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	k.Bytes, k.There, k.Refused = got.Bytes, time.Since(begin).Seconds(), got.Refused
	t, err := n.telling(f.MAC, got.Trust)
	if err != nil {
		return nil, err
	}
	served := &blockapi.KernelFile{File: file}
	var end int64
	for part, o := range t.config.KernelFile {
		served.Objects = append(served.Objects, blockapi.KernelObject{ID: o.Object, Size: o.Size})
		if end += o.Size; n.wrong {
			if _, err := file.WriteAt([]byte("wrong"), end-o.Size/2); err != nil {
				return nil, err
			}
		}
		if got.From[part] < len(v.From[part])-1 {
			k.Peer += o.Size
		}
	}
	if v.Keeps {
		n.Kernel, n.serving = served, t
	}
	return k, t.register(ctx)
}

// serves tells the server that the node's daemon serves K.
func (t *telling) serves(ctx context.Context) error {
	e := event(trace.Device, trace.Info, time.Since(t.init))
	e.Attrs = map[string]string{trace.AttrKernelPort: strconv.Itoa(swarm.Port),
		trace.AttrPrefix:          strconv.Itoa(t.n.Net.Addr.Bits()),
		trace.AttrServedKernel:    t.n.Kernel.Objects[0].ID,
		trace.AttrServedInitramfs: t.n.Kernel.Objects[1].ID}
	return t.insist(ctx, nil, e)
}

// finish computes the results that follow from the nodes' times.
func (k *runK) finish(each []nodeRun) {
	for _, n := range each {
		if n.K == nil {
			continue
		}
		k.Bytes, k.Last = max(k.Bytes, n.K.Bytes), max(k.Last, n.K.There)
		k.Peer += n.K.Peer
		k.Refused += n.K.Refused
		if k.First == 0 || n.K.There < k.First {
			k.First = n.K.There
		}
		k.Together = max(k.Together, loadingAt(n.K.Admitted, each))
	}
}

// loadingAt counts the nodes that load at a moment.
func loadingAt(at float64, each []nodeRun) (count int) {
	for _, n := range each {
		if n.K != nil && n.K.Admitted <= at && at < n.K.There {
			count++
		}
	}
	return count
}

// passes reports whether nodes send K on.
func (r stormRun) passes() bool {
	return r.K.From == string(fleet.FromNeighbours) && r.System != unicastName
}

// serverBytesK returns what the server has to send: K for each node, or once if nodes send it on, and the root once or,
// if nodes share nothing, for each node.
func (r stormRun) serverBytesK() int64 {
	root := r.BootSet
	if r.passes() {
		return r.K.Bytes + root
	}
	if r.System == unicastName {
		root *= int64(r.Nodes)
	}
	return int64(r.Nodes)*r.K.Bytes + root
}

// boundK returns a lower bound of the storm's duration, in seconds, from the server's link and a node's link.
func (r stormRun) boundK() float64 {
	return max(
		bench.Unit(r.serverBytesK(), testkit.Rate(r.ServerRate)),
		bench.Unit(r.K.Bytes+r.BootSet, testkit.Rate(r.NodeRate)),
	).Seconds()
}
