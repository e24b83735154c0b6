package node

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/settingflags"
	"pando/internal/trace"
)

// Command returns the command `node`. others are verbs that other packages make.
func Command(env *cmdenv.Env, others ...*cobra.Command) *cobra.Command {
	c := cmdenv.Noun(
		"node",
		"Machines that boot from here",
		nodeList(env),
		nodeShow(env),
		nodeCreate(env),
		nodeSet(env),
		nodeDelete(env),
		nodeAdopt(env),
		nodeDiff(env),
		nodeSync(env),
		nodeApprove(env),
		nodeIdentity(env),
		nodeCache(env),
		nodeStateCommand(env),
		nodeLogs(env),
		nodePower(env),
		nodeReboot(env),
		nodeStage(env),
		cmdenv.PasswordCommand(env, "node", env.CompleteNodes, (*api.Client).SetNodePassword),
	)
	c.AddCommand(others...)
	return c
}

func nodeList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list [NODES]",
		Short: "List nodes, with what they run",
		Example: `  pando node list
  pando node list 'pc[001-030],@kiosks'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			nodes, err := c.Nodes(ctx, cmdenv.Arg(args, 0))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.NodeList{Nodes: nodes})
			}
			printNodes(env, nodes)
			return nil
		}),
	})
}

func printNodes(env *cmdenv.Env, nodes []api.Node) {
	t := output.NewTable(env.Out, "NODE", "GROUP", "STATE", "MAC", "SERIAL", "ADDRESS", "RUNNING", "SEEN")
	for _, n := range nodes {
		mac := ""
		if len(n.MACs) > 0 {
			mac = n.MACs[0].String()
		}
		t.Row(n.Name, n.Group, nodeState(n), mac, output.OneLine(n.SerialNumber()), addressText(n.IP), running(n),
			output.Ago(env.Now(), n.Seen))
	}
	t.Flush()
}

// addressText returns an address, "" if it is unknown.
func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// nodeState returns the state for the table: that of the latest boot or, without one, of the node.
func nodeState(n api.Node) string {
	if n.Boot == nil || n.State != "adopted" {
		return string(n.State)
	}
	if n.Boot.State == trace.Booting || n.Boot.State == trace.Failed {
		return string(n.Boot.State) + " (" + string(n.Boot.Stage) + ")"
	}
	if n.Boot.State.Runs() && n.Status != nil && n.Status.Fullness() > fleet.Roomy {
		return string(n.Boot.State) + " (write layer full)"
	}
	return string(n.Boot.State)
}

// filesUsed returns how many files a file system has, and how many it can have.
func filesUsed(n, total int64) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n, total)
}

// running returns the version that runs, with a mark if the node needs a reboot.
func running(n api.Node) string {
	s := n.Running.Short()
	if n.Drift {
		s += " (needs a reboot)"
	}
	return s
}

func nodeShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               "show NODE",
		Short:             "Show all that is known of a node",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, n)
			}
			printNode(env, n)
			return nil
		}),
	})
}

func printNode(env *cmdenv.Env, n api.Node) {
	pairs := []string{"node", n.Name, "state", nodeState(n), "group", n.Group, "labels", output.Labels(n.Labels),
		"MACs", output.Join(n.MACs), "MACs that were only seen", output.Join(n.Learned), "address", addressText(n.IP),
		"fixed address", fixedAddress(n),
		"own settings", ownSettings(n.Settings), "UUID", n.UUID, "serial number", serialText(n),
		"created", output.Time(n.Created), "seen", output.Ago(env.Now(), n.Seen),
		"should run", string(n.Desired), "running", string(n.Running), "staged", staged(n), "needs a reboot",
		drift(n.Drift), "rollout", n.Rollout}
	pairs = append(pairs, extensionPairs(n)...)
	pairs = append(
		pairs,
		"secrets withheld",
		n.Withheld,
		"config files that are old",
		strings.Join(n.ConfigOld, " "),
		"config files that go at the next boot",
		strings.Join(n.ConfigGone, " "),
	)
	pairs = append(pairs, hardwarePairs(n)...)
	pairs = append(pairs, bootPairs(n)...)
	output.Fields(env.Out, pairs...)
	printEffective(env, n.Effective)
}

// fixedAddress returns the declared address of a node, with a note if the node uses another one.
func fixedAddress(n api.Node) string {
	if n.Address.IsValid() && n.IP.IsValid() && n.IP != n.Address {
		return n.Address.String() + " (it has another one: does this server give addresses?)"
	}
	return addressText(n.Address)
}

// serialText returns the declared serial number of a node, and the one that its firmware reports if that differs.
func serialText(n api.Node) string {
	seen := output.OneLine(n.SerialSeen)
	switch {
	case n.Serial == "" && seen != "":
		return seen + " (as its firmware says)"
	case seen != "" && !strings.EqualFold(seen, n.Serial):
		return n.Serial + " (its firmware says " + seen + ")"
	}
	return n.Serial
}

// linkText returns the rate of a link, "" if it is unknown.
func linkText(rate int64) string {
	if rate == 0 {
		return ""
	}
	return output.RateText(rate)
}

// hardwarePairs returns the hardware that a node reported.
func hardwarePairs(n api.Node) []string {
	var pairs []string
	if h := n.Hardware; h != nil {
		pairs = append(
			pairs,
			"machine",
			strings.TrimSpace(h.Vendor+" "+h.Product),
			"architecture",
			h.Architecture,
			"CPU",
			h.CPU,
			"CPUs",
			output.Count(h.CPUs),
			"memory",
			output.SizeOf(h.Memory),
			"network driver",
			h.NIC,
			"link",
			linkText(h.Link),
			"NICs without driver",
			strings.Join(h.Missing, " "),
			"PCI devices",
			strings.Join(h.PCI, " "),
			"hardware classes",
			strings.Join(n.Classes, " "),
		)
	}
	return pairs
}

// bootPairs returns the latest boot of a node, and what the node reported since.
func bootPairs(n api.Node) []string {
	var pairs []string
	if b := n.Boot; b != nil {
		pairs = append(
			pairs,
			"boot",
			string(b.ID),
			"started",
			output.Time(b.Started),
			"boot state",
			string(b.State),
			"stage",
			string(b.Stage),
			"elapsed",
			output.Span(b.Elapsed),
			"received",
			output.BySource(b.Bytes),
			"failure",
			b.Failure,
			"hint",
			b.Hint,
		)
	}
	if s := n.Status; s != nil {
		pairs = append(
			pairs,
			"reads",
			output.Count(int(s.Reads)),
			"rejected",
			output.Count(int(s.Rejected)),
			"write layer",
			n.Writes().String(),
			"written",
			output.Used(s.UpperUsed, s.UpperTotal),
			"files in it",
			filesUsed(s.FilesUsed, s.FilesTotal),
		)
		if s.Systemd != nil {
			pairs = append(pairs, "systemd", s.Systemd.State, "failed units", strings.Join(s.Systemd.Failed, " "))
		}
	}
	return pairs
}

// printEffective prints each setting of a node and where it comes from.
func printEffective(env *cmdenv.Env, values []fleet.Value) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintln(env.Out)
	t := output.NewTable(env.Out, "SETTING", "VALUE", "SET BY", "OVERRIDES")
	for _, v := range values {
		t.Row(strings.ReplaceAll(v.Setting, "_", " "), v.Value, v.From, strings.Join(v.Over, ", "))
	}
	t.Flush()
	for _, v := range values {
		if note := settingflags.ValueNote(v); note != "" {
			env.Printf("\nnote: %s\n", note)
		}
	}
}

// ownSettings lists the settings of a node that override those of its group.
func ownSettings(s fleet.Settings) string {
	var labels []string
	for _, x := range s.Explicit() {
		labels = append(labels, x.Label())
	}
	return strings.Join(labels, ", ")
}

// extensionPairs returns the extensions that a node has and, if they differ, those that it should have.
func extensionPairs(n api.Node) []string {
	text := func(list []fleet.Extension) string {
		var out []string
		for _, e := range list {
			out = append(out, e.Name+"@"+string(e.Version))
		}
		return strings.Join(out, "\n\t")
	}
	var has []fleet.Extension
	why := ""
	if n.Status != nil {
		has, why = n.Status.Extensions, n.Status.ExtensionError
	}
	pairs := []string{"extensions", text(has)}
	if fleet.ExtensionsKey(has) != fleet.ExtensionsKey(n.Over) {
		pairs = append(pairs, "extensions it should have", cmp.Or(text(n.Over), "none"))
	}
	return append(pairs, "extensions fail", cmp.Or(why, strings.Join(n.OverProblems, "\n\t")))
}

// drift returns the mark of a node that needs a reboot.
func drift(d bool) string {
	if d {
		return "yes"
	}
	return ""
}
