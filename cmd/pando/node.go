package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

func (a *app) nodeCommand() *cobra.Command {
	return noun(
		"node",
		"Machines that boot from here",
		a.nodeList(),
		a.nodeShow(),
		a.nodeCreate(),
		a.nodeSet(),
		a.nodeDelete(),
		a.nodeAdopt(),
		a.nodeImport(),
		a.nodeWatch(),
		a.nodeDiff(),
		a.nodeSync(),
		a.nodeApprove(),
		a.nodeIdentity(),
		a.nodeCache(),
		a.nodeState(),
		a.nodeLogs(),
		a.nodePower(),
		a.nodeReboot(),
		a.nodeStage(),
		a.passwordCommand("node", a.completeNodes, (*api.Client).SetNodePassword),
	)
}

func (a *app) nodeList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list [NODES]",
		Short: "List nodes, with what they run",
		Example: `  pando node list
  pando node list 'pc[001-030],@kiosks'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			nodes, err := c.Nodes(ctx, arg(args, 0))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.NodeList{Nodes: nodes})
			}
			a.printNodes(nodes)
			return nil
		}),
	})
}

func (a *app) printNodes(nodes []api.Node) {
	t := newTable(a.out, "NODE", "GROUP", "STATE", "MAC", "ADDRESS", "RUNNING", "SEEN")
	for _, n := range nodes {
		mac := ""
		if len(n.MACs) > 0 {
			mac = n.MACs[0].String()
		}
		address := ""
		if n.Address.IsValid() {
			address = n.Address.String()
		}
		t.row(n.Name, n.Group, nodeState(n), mac, address, running(n), ago(a.now(), n.Seen))
	}
	t.flush()
}

// nodeState is one word for the table: the boot's state where there is a boot.
func nodeState(n api.Node) string {
	if n.Boot == nil || n.State != "adopted" {
		return string(n.State)
	}
	if n.Boot.State == trace.Booting || n.Boot.State == trace.Failed {
		return string(n.Boot.State) + " (" + string(n.Boot.Stage) + ")"
	}
	if n.Boot.State == trace.Up && n.Status != nil && n.Status.Fullness() > fleet.Roomy {
		return string(n.Boot.State) + " (write layer full)"
	}
	return string(n.Boot.State)
}

// filesUsed is how many files of those that a file system can have there are.
func filesUsed(n, total int64) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n, total)
}

// running is the version that runs, with a mark where a reboot would change it.
func running(n api.Node) string {
	s := n.Running.Short()
	if n.Drift {
		s += " (drift)"
	}
	return s
}

func (a *app) nodeShow() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:               "show NODE",
		Short:             "Show all that is known of a node",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, n)
			}
			a.printNode(n)
			return nil
		}),
	})
}

func (a *app) printNode(n api.Node) {
	address := ""
	if n.Address.IsValid() {
		address = n.Address.String()
	}
	pairs := []string{"node", n.Name, "state", nodeState(n), "group", n.Group, "labels", labels(n.Labels),
		"MACs", join(n.MACs), "fixed address", address,
		"own settings", ownSettings(n.Settings), "UUID", n.UUID, "serial", n.Serial,
		"created", clock(n.Created), "seen", ago(a.now(), n.Seen),
		"desired", string(n.Desired), "running", string(n.Running), "staged", staged(n), "drift", drift(n.Drift), "rollout", n.Rollout}
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
			count(h.CPUs),
			"memory",
			sizeOf(h.Memory),
			"network driver",
			h.NIC,
			"NICs without driver",
			strings.Join(h.Missing, " "),
			"PCI devices",
			strings.Join(h.PCI, " "),
			"hardware classes",
			strings.Join(n.Classes, " "),
		)
	}
	if b := n.Boot; b != nil {
		pairs = append(
			pairs,
			"boot",
			string(b.ID),
			"started",
			clock(b.Started),
			"boot state",
			string(b.State),
			"stage",
			string(b.Stage),
			"elapsed",
			span(b.Elapsed),
			"received",
			sources(b.Bytes),
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
			count(int(s.Reads)),
			"rejected",
			count(int(s.Rejected)),
			"write layer",
			n.Writes().String(),
			"written",
			used(s.UpperUsed, s.UpperTotal),
			"files in it",
			filesUsed(s.FilesUsed, s.FilesTotal),
		)
		if s.Systemd != nil {
			pairs = append(pairs, "systemd", s.Systemd.State, "failed units", strings.Join(s.Systemd.Failed, " "))
		}
	}
	fields(a.out, pairs...)
	a.printEffective(n.Effective)
}

// printEffective shows where each setting of a node comes from.
func (a *app) printEffective(values []fleet.Value) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	t := newTable(a.out, "SETTING", "VALUE", "SET BY", "OVERRIDES")
	for _, v := range values {
		t.row(strings.ReplaceAll(v.Setting, "_", " "), v.Value, v.From, strings.Join(v.Over, ", "))
	}
	t.flush()
	for _, v := range values {
		if note := valueNote(v); note != "" {
			fmt.Fprintln(a.out, "\nnote: "+note)
		}
	}
}

// ownSettings names the settings that a node has otherwise than its group.
func ownSettings(s fleet.Settings) string {
	var labels []string
	for _, x := range s.Explicit() {
		labels = append(labels, x.Label())
	}
	return strings.Join(labels, ", ")
}

// extensionPairs tells what is laid over a node's root, and what should be where that is something else.
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

func drift(d bool) string {
	if d {
		return "yes: a reboot changes what it runs"
	}
	return ""
}

func (a *app) nodeWatch() *cobra.Command {
	c := a.watchCommand()
	c.GroupID = ""
	return c
}
