package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/sim"
	"pando/internal/trace"
)

// usualPiece is the usual size of a boot pack's piece on the wire, in bytes (256 KiB raw). agentSent is what the node's
// program and keys usually add to a version's kernel and drivers, in bytes.
const (
	usualPiece = 87_000
	agentSent  = 3_300_000
)

// planFlags are the flags of `plan`.
type planFlags struct {
	nodes, servers       int
	nodeLink, serverLink *output.Quantity
	workingSet, k        *output.Quantity
	image, peers         string
	kernelFrom           string
}

// PlanCommand returns the command `plan`.
func PlanCommand(env *cmdenv.Env) *cobra.Command {
	f := planFlags{
		nodeLink:   output.NewRate(1e9),
		serverLink: output.NewRate(0),
		workingSet: output.NewSize(21e6),
		k:          output.NewSize(18e6),
	}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Tell how long a boot storm takes, and where its bottleneck is",
		Long: fmt.Sprintf(
			`Simulate a boot storm: all nodes are switched on at the same moment. Nodes and servers decide as real ones do; the network
between them is links with the given rates. Kernel and initrd come first: each server sends them to about as many
nodes at a time as fill its link twice, and the others wait for their turn. Then the nodes fetch what a boot reads,
each byte from a server about once and else from each other; with --peers off everything from the servers. With --kernel-from neighbours a node that has begun sends kernel and
initrd on, to one node after the other; it begins %s after it has them.

The time of a node is from its question for a script, which all ask at the same moment, until it has all that a boot reads:
that of the network, and %s between script and kernel. The firmware's self-test and DHCP, and what a boot does between
its reads, come on top and are the same for one node as for a thousand: a boot that works longer than what it reads takes
to come ends that much later; the times of kernel and initrd, what servers send and the bottleneck stay about as they are.
Storms of 1 to 200 real nodes, and of 1 to 40 that loaded kernel and initrd first, on links so slow that their processors had time, with the pauses of their boots simulated,
took %.2f to %.2f times what is simulated, and up to %s more.`,
			output.Span(sim.KernelStart),
			output.Span(sim.Firmware),
			sim.LabLeast,
			sim.LabMost,
			output.Span(sim.LabStart),
		),
		Example: `  pando plan --nodes 200 --node-link 100mbit --server-link 1gbit
  pando plan --nodes 1000 --server-link 10gbit --servers 2 --image lab`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := planConfig(env, cmd.Context(), f, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			p, err := makePlan(config)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if env.JSON {
				return output.JSON(env.Out, p)
			}
			printPlan(env, p)
			return nil
		},
	}
	fs := c.Flags()
	fs.IntVar(&f.nodes, "nodes", 0, "how many nodes boot at once")
	fs.IntVar(&f.servers, "servers", 1, "how many servers they share")
	fs.Var(f.nodeLink, "node-link", "link of a node")
	fs.Var(f.serverLink, "server-link", "link of a server (default: as a node's)")
	fs.StringVar(&f.image, "image", "", "take the sizes of this image from the server: what a boot reads, and its "+
		"kernel and initrd")
	fs.Var(f.workingSet, "boot-reads", "what a boot reads, in bytes as they are sent")
	fs.Var(f.k, "kernel-initrd", "kernel and initrd, in bytes as they are sent")
	fs.StringVar(&f.kernelFrom, "kernel-from", string(fleet.FromNeighbours), "who sends kernel and initrd: neighbours "+
		"(where boot loaders verify digests, see pando loader list) or servers")
	fs.StringVar(&f.peers, "peers", "on", "whether nodes give each other what they have: on or off")
	return env.ReadFlags(c)
}

// planConfig returns the configuration of the simulation from the flags and, if one is named, an image.
func planConfig(env *cmdenv.Env, ctx context.Context, f planFlags, changed func(string) bool) (sim.Config, error) {
	c := sim.Config{Nodes: f.nodes, Servers: f.servers, NodeLink: f.nodeLink.N, ServerLink: f.serverLink.N,
		W: f.workingSet.N, K: f.k.N, Unicast: f.peers == "off", Reads: true, Seed: 1}
	if c.ServerLink == 0 {
		c.ServerLink = c.NodeLink
	}
	switch {
	case f.nodes <= 0:
		return c, exitcode.WithHint(exitcode.Usagef("plan: how many nodes?"), "pass --nodes N")
	case f.peers != "on" && f.peers != "off":
		return c, exitcode.Usagef("--peers %q: want on or off", f.peers)
	case f.kernelFrom != string(fleet.FromNeighbours) && f.kernelFrom != string(fleet.FromServers):
		return c, exitcode.Usagef("--kernel-from %q: want neighbours or servers", f.kernelFrom)
	case f.image != "" && (changed("boot-reads") || changed("kernel-initrd")):
		return c, exitcode.Usagef("--image says what --boot-reads and --kernel-initrd would say; pass one or the other")
	}
	if c.Passed = f.kernelFrom == string(fleet.FromNeighbours) && !c.Unicast; c.Passed {
		c.Start = sim.KernelStart
	}
	c.Pieces = int(max(1, c.W/usualPiece))
	if f.image == "" {
		return c, nil
	}
	client, err := env.Client()
	if err != nil {
		return c, err
	}
	defer client.Close()
	return ofImage(ctx, client, c, fleet.Ref(f.image))
}

// ofImage sets the sizes to those of an image on the server.
func ofImage(ctx context.Context, client *api.Client, c sim.Config, ref fleet.Ref) (sim.Config, error) {
	if _, _, _, err := ref.Split(); err != nil {
		return c, exitcode.AsUsage(err)
	}
	t, err := client.ImageTrace(ctx, ref)
	if err != nil {
		return c, err
	}
	i, err := cmdenv.FindImage(ctx, client, string(ref))
	if err != nil {
		return c, err
	}
	switch {
	case len(t.Packs) > 0:
		p := packForAll(t.Packs)
		c.W, c.Pieces = p.BootSet, p.BootPieces
	case t.Chunks > 0:
		c.W = t.Chunks
		c.Pieces = int(max(1, c.W/usualPiece))
	default:
		return c, api.NewError(api.NotFound, fmt.Sprintf("image %s: no boot is known that tells what it reads", ref),
			"boot one node, or pass --boot-reads and --kernel-initrd")
	}
	for _, v := range i.Versions {
		if v.Digest == t.Version {
			c.K = v.KernelSize + v.DriversSize + agentSent
		}
	}
	boots, err := client.Boots(ctx, "", 100)
	if err != nil {
		return c, err
	}
	for _, b := range boots { // measured bytes of boots are more exact than a sum of file sizes
		if b.Version == t.Version && b.State.Reached() && b.Bytes[trace.SourceK]+b.Bytes[trace.SourceNeighbour] > 0 {
			c.K = b.Bytes[trace.SourceK] + b.Bytes[trace.SourceNeighbour]
			break
		}
	}
	return c, nil
}

// packForAll is the first boot pack for all hardware or, if there is none, the first of any hardware class. Packs come
// in the order in which they were made.
func packForAll(packs []api.Pack) api.Pack {
	return packs[max(0, slices.IndexFunc(packs, func(p api.Pack) bool { return p.Class == "" }))]
}

// plan is what `plan --json` prints. Durations are in nanoseconds, sizes in bytes, rates in bits per second.
type plan struct {
	Nodes      int   `json:"nodes"`
	Servers    int   `json:"servers"`
	NodeLink   int64 `json:"node_link"`
	ServerLink int64 `json:"server_link"`
	K          int64 `json:"k"`
	WorkingSet int64 `json:"working_set"`
	Pieces     int   `json:"pieces"`
	Peers      bool  `json:"peers"`

	One        time.Duration `json:"one"`  // boot of a single node
	Last       time.Duration `json:"last"` // end of the last boot of the storm
	Median     time.Duration `json:"median"`
	LastK      time.Duration `json:"last_k"` // when the last node has kernel+initrd
	Admitted   int           `json:"admitted"`
	ServerK    int64         `json:"server_k"`    // bytes of kernel+initrd that servers send
	PeerK      int64         `json:"peer_k"`      // the same of nodes
	ServerRoot int64         `json:"server_root"` // bytes of the root that servers send
	PeerRoot   int64         `json:"peer_root"`
	Requests   int64         `json:"requests"`         // to trackers
	Without    time.Duration `json:"without_peers"`    // Last if all bytes came from servers
	Bottleneck string        `json:"bottleneck"`       // "k", "server" or "nodes"
	Meaning    string        `json:"bottleneck_means"` // Bottleneck for people
}

// makePlan runs the simulation.
func makePlan(c sim.Config) (plan, error) {
	r, err := sim.Run(c.Whole())
	if err != nil {
		return plan{}, err
	}
	p := plan{
		Nodes:      c.Nodes,
		Servers:    c.Servers,
		NodeLink:   c.NodeLink,
		ServerLink: c.ServerLink,
		K:          c.K,
		WorkingSet: c.W,
		Pieces:     c.Pieces,
		Peers:      !c.Unicast,
		Last:       r.Last,
		Median:     r.Median,
		LastK:      r.LastK,
		Admitted:   c.Admitted(),
		ServerK:    r.KBytes,
		PeerK:      r.KPassed,
		ServerRoot: r.ServerBytes,
		PeerRoot:   r.PeerBytes,
		Requests:   r.Requests,
	}
	if p.One = sending(c.K+c.W, min(c.NodeLink, c.ServerLink)); c.K > 0 {
		p.One += sim.Firmware + c.Start
	}
	p.Without = max(p.One, sending(int64(c.Nodes)*(c.K+c.W), c.ServerLink*int64(c.Servers)))
	p.Bottleneck, p.Meaning = p.narrow()
	return p, nil
}

// sending returns how long it takes to send bytes over a link.
func sending(bytes, link int64) time.Duration {
	return time.Duration(float64(bytes) * 8 / (float64(link) * sim.Goodput) * float64(time.Second))
}

// narrow names the bottleneck: the servers' links if they are busy for clearly longer than a node's link, otherwise the
// nodes.
func (p plan) narrow() (short, meaning string) {
	all, own := p.ServerLink*int64(p.Servers), sending(p.K+p.WorkingSet, p.NodeLink)
	k, root := sending(p.ServerK, all), sending(p.ServerRoot, all)
	switch {
	case p.Last < p.One*15/10 && k+root <= own*14/10:
		return "nodes", "the nodes' own links: a storm takes about as long as one boot"
	case k >= root:
		return "k", fmt.Sprintf(
			"the servers' links while they send kernel and initrd, %s: more servers, a faster link, a "+
				"smaller initrd, or boot loaders that take them from nodes help",
			output.Span(k),
		)
	case !p.Peers && p.Nodes > 1:
		return "server", fmt.Sprintf(
			"the servers' links while they send the root, %s: peers would take that from them",
			output.Span(root),
		)
	}
	return "server", fmt.Sprintf(
		"the servers' links while they send the root, %s: they are slower than a node's",
		output.Span(root),
	)
}

func printPlan(env *cmdenv.Env, p plan) {
	peers := "with peers"
	if !p.Peers {
		peers = "without peers"
	}
	k := ""
	if p.K > 0 {
		k = fmt.Sprintf("the last node has them after %s; each server sends to %d at a "+
			"time", output.Span(p.LastK), p.Admitted)
	}
	w := float64(p.WorkingSet)
	output.Fields(
		env.Out,
		"nodes",
		fmt.Sprintf("%d, %s each, %s", p.Nodes, output.RateText(p.NodeLink), peers),
		"servers",
		fmt.Sprintf("%d, %s each", p.Servers, output.RateText(p.ServerLink)),
		"a node fetches",
		strings.TrimPrefix(fmt.Sprintf("%swhat a boot reads %s in %d "+
			"pieces", kText(p.K), output.Size(p.WorkingSet), p.Pieces), " "),
		"one node alone",
		output.Span(p.One),
		"last node",
		fmt.Sprintf(
			"%s, %.2f times one (half of them after %s)",
			output.Span(p.Last),
			p.Last.Seconds()/p.One.Seconds(),
			output.Span(p.Median),
		),
		"kernel+initrd",
		k,
		"servers send",
		fmt.Sprintf("%sroot %s, %.2f times what a boot "+
			"reads", kText(p.ServerK), output.Size(p.ServerRoot), float64(p.ServerRoot)/w),
		"without peers",
		output.Span(p.Without),
		"bottleneck",
		p.Meaning,
	)
}

func kText(n int64) string {
	if n == 0 {
		return ""
	}
	return "kernel+initrd " + output.Size(n) + ", "
}
