package node

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
)

func nodeStateCommand(env *cmdenv.Env) *cobra.Command {
	c := cmdenv.Noun(
		"state",
		"What nodes keep across boots",
		stateList(env),
		stateSnapshot(env),
		stateReset(env),
		stateCopy(env),
		stateCancel(env),
	)
	c.GroupID = ""
	c.Long = `What nodes keep across boots.

It is kept where the settings of nodes and groups say (--state-on, --persist). A volume is the server's: it takes snapshots, resets and copies it while the node
is off. What is on network file systems and disks only the node gets at: its next boot resets it, makes it a copy, or sends it to another node, before anything
else starts.`
	return c
}

func stateList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list [NODES]",
		Short: "List what nodes keep",
		Long: `List what nodes keep: each directory and file with what it takes on the disk, as nodes say themselves when they have booted, and once a day.

Behind the nodes is what deleted ones left, called NODE.deleted-TIME.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			list, err := c.State(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.StateList{Nodes: list})
			}
			t := output.NewTable(env.Out, "NODE", "KEPT ON", "PATH", "SIZE", "SINCE", "TOLD", "NOTE")
			for _, s := range list {
				stateRows(env, t, s)
			}
			t.Flush()
			return nil
		}),
	})
}

// stateRows adds a row for each path that a node keeps. The first row also has the notes about the whole state.
func stateRows(env *cmdenv.Env, t *output.Table, s api.StateOf) {
	notes := stateNotes(env.Now(), s)
	row := func(on, path, size, since, told string, more ...string) {
		t.Row(s.Node, on, path, size, since, told, strings.Join(append(notes, more...), "; "))
		notes = nil
	}
	shown := map[string]bool{}
	for _, p := range s.Places {
		for _, k := range p.Paths {
			var more []string
			switch {
			case !s.Deleted.IsZero():
			case p.Place != s.Place:
				more = []string{"not kept there any more"}
			case !slices.Contains(s.Persist, k.Path) && !slices.Contains(s.Persist, fleet.FilePrefix+k.Path):
				more = []string{"not declared any more"}
			}
			shown[k.Path] = shown[k.Path] || p.Place == s.Place
			row(p.On, k.Path, keptSize(k), day(k.Since), output.Ago(env.Now(), p.Told), more...)
		}
		if len(p.Paths) == 0 && len(s.Persist) == 0 {
			row(p.On, "", "", "", output.Ago(env.Now(), p.Told))
		}
	}
	for _, p := range s.Persist {
		if path := fleet.ParsePersist(p).Path; !shown[path] {
			row(s.Kept, path, "", "", "", "not yet")
		}
	}
	if notes != nil {
		row(s.Kept, "", "", "", "")
	}
}

func keptSize(k fleet.KeptPath) string {
	if k.Bytes < 0 {
		return ""
	}
	return output.Size(k.Bytes)
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateOnly)
}

// stateNotes returns notes about the state of a node as a whole.
func stateNotes(now time.Time, s api.StateOf) []string {
	out := []string{}
	if s.Dir != "" && s.Dir != s.Node {
		out = append(out, "in "+s.Dir)
	}
	if v := s.Volume; v != nil {
		text := "volume " + output.Used(v.Used, v.Size)
		if v.Attached {
			text += ", attached"
		}
		out = append(out, text)
		if len(v.Snapshots) > 0 {
			out = append(out, "snapshots "+snapshotText(v))
		}
	}
	for _, o := range s.Orders {
		if o.Kind == fleet.RemoveState {
			out = append(out, "to be removed by the next node that boots and keeps its own there")
			continue
		}
		out = append(out, "at its next boot: "+orderText(o))
	}
	if s.Last != nil && s.Last.Error != "" {
		out = append(out, output.Ago(now, s.Last.At)+" "+s.Last.Done())
	}
	return out
}

// orderText describes an order and, for a copy through the server, how far it is.
func orderText(o fleet.StateOrder) string {
	switch {
	case o.Waits():
		return fmt.Sprintf("%s, which has not sent it", o)
	case o.Through:
		return fmt.Sprintf("%s, which has sent it (%s)", o, output.Size(o.Bytes))
	}
	return o.String()
}

func snapshotText(v *api.VolumeState) string {
	var names []string
	for _, s := range v.Snapshots {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func stateSnapshot(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot NODE NAME",
		Short: "Keep a node's volume as it is now",
		Long: "Keep a node's volume as it is now, as a power cut would leave it. The node may be on: " +
			"its writes wait for a moment.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, err := c.SnapshotState(ctx, args[0], api.StateChange{Snapshot: args[1]}); err != nil {
				return err
			}
			env.Printf("snapshot %s of %s made\n", args[1], args[0])
			return nil
		}),
	}
}

func stateReset(env *cmdenv.Env) *cobra.Command {
	var ch api.StateChange
	c := &cobra.Command{
		Use:   "reset NODE",
		Short: "Have a node start again with what its image has",
		Long: `Have a node start again with what its image has, or with a snapshot of its volume.

A volume is reset at once, and its node must be off. Everything else is reset by the node's next boot, before anything starts that would write to it; until then
"pando node state cancel" takes it back. With --path that is so for volumes too.

Of a deleted node (NODE.deleted-TIME) what it kept is removed: a volume at once, a directory on a network file system by the next node that boots and keeps its own
state there.`,
		Example: `  pando node state reset pc001
  pando node state reset pc001 --path /var/lib/containers
  pando node state reset pc001 --to before-update`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if ch.Snapshot != "" && len(ch.Paths) > 0 {
				return exitcode.Usagef("--to %s --path %s: a snapshot is of the whole volume", ch.Snapshot, ch.Paths[0])
			}
			s, err := c.ResetState(ctx, args[0], ch)
			if err != nil {
				return err
			}
			printOrders(env, s, "the state of "+args[0]+" is reset")
			return nil
		}),
	}
	fl := c.Flags()
	fl.StringVar(&ch.Snapshot, "to", "", "snapshot that a volume becomes; none: it is emptied, with all its snapshots")
	fl.StringArrayVar(&ch.Paths, "path", nil, "only this directory or file that is kept; may be repeated")
	fl.BoolVar(&ch.Forget, "forget", false, "of a deleted node: forget what it kept, and leave it where it is")
	return c
}

// printOrders prints which orders were carried out, and which are for the node's next boot.
func printOrders(env *cmdenv.Env, s api.StateOf, done string) {
	if len(s.Orders) == 0 {
		env.Printf("%s\n", done)
		return
	}
	o := s.Orders[len(s.Orders)-1]
	switch {
	case o.Kind == fleet.RemoveState:
		env.Printf("%s is removed by the next node that boots and keeps its state there\n", s.Node)
	case o.Waits():
		env.Printf(
			"%s sends its state at its next boot. At the next boot of %s after that: %s. Now: pando node reboot %s\n",
			o.From,
			s.Node,
			o,
			o.From,
		)
	case s.On:
		env.Printf("%s is on. At its next boot: %s. Now: pando node reboot %s\n", s.Node, o, s.Node)
	default:
		env.Printf("%s is off. At its next boot: %s\n", s.Node, o)
	}
}

func stateCopy(env *cmdenv.Env) *cobra.Command {
	var ch api.StateChange
	c := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Make a node's state a copy of another node's",
		Long: `Make the state of TO a copy of what FROM has.

From volume to volume it is copied at once: TO must be off; FROM may be on, and its writes wait meanwhile. On a network file system where both keep their state, TO
copies it at its next boot, before anything starts; FROM must be off until then, unless --force has it copied as its files are at that time. The state of a deleted node
(NODE.deleted-TIME) can be copied as well.

Otherwise, as between disks, it goes through the server: FROM sends it at its next boot, before anything starts; TO takes it over at its next boot after that. Both must
keep state. "pando node reboot" does it now.`,
		Example:           `  pando node state copy pc001 pc002`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch.From = args[0]
			s, err := c.CopyState(ctx, args[1], ch)
			if err != nil {
				return err
			}
			printOrders(env, s, args[1]+" has the state of "+args[0])
			return nil
		}),
	}
	c.Flags().BoolVar(&ch.Force, "force", false,
		"on a network file system: also from a node that is on, as its files are at that time")
	return c
}

func stateCancel(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel NODE",
		Short: "Take back what a node's next boot would do to its state",
		Long: "Take back what a node's next boot would do to its state. A boot that has begun may do " +
			"it all the same.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, err := c.WithdrawState(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("the next boot of %s leaves its state as it is\n", args[0])
			return nil
		}),
	}
}
