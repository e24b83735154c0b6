package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/output"
)

func nodeSync(env *cmdenv.Env) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "sync NODES",
		Short: "Bring the config files of running nodes up to date, and run their commands",
		Long: `Bring the config files of running nodes up to date, and run their commands.

Every node compares its files with what the server has for it now, also those that somebody changed on the node, replaces what differs
and then runs the command of each file that it replaced ('pando config set --run'). It answers when it speaks next, within about
a minute. A file that is declared no more stays until the node reboots. The exit status is 1 when something failed anywhere.`,
		Example: `  pando node sync @lab --dry-run
  pando node sync pc001`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			fmt.Fprintln(env.Err, "waiting for the nodes, which speak about once a minute")
			nodes, err := c.SyncNodes(ctx, api.SyncRequest{Select: args[0], DryRun: dryRun})
			if err != nil {
				return err
			}
			if env.JSON {
				err = output.JSON(env.Out, api.SyncList{DryRun: dryRun, Nodes: nodes})
			} else {
				printSynced(env, nodes, dryRun)
			}
			return errors.Join(err, syncFailures(nodes))
		}),
	}
	env.WriteFlags(c, &dryRun)
	return c
}

func printSynced(env *cmdenv.Env, nodes []api.NodeSync, dryRun bool) {
	did := map[bool]string{true: "changed", false: "made"}
	if dryRun {
		did = map[bool]string{true: "would be changed", false: "would be made"}
	}
	for _, n := range nodes {
		switch {
		case n.Off:
			env.Printf("%s: does not run; its next boot brings them\n", n.Node)
		case n.Error != "":
			env.Printf("%s: FAILED: %s\n", n.Node, n.Error)
		case len(n.Files) == 0:
			env.Printf("%s: as they should be\n", n.Node)
		default:
			env.Printf("%s:\n", n.Node)
		}
		for _, f := range n.Files {
			switch {
			case f.Error != "":
				env.Printf("  %s: FAILED: %s\n", f.Path, f.Error)
			case f.Failed != "":
				env.Printf("  %s: %s; FAILED: %s: %s\n", f.Path, did[!f.New], f.Run, f.Failed)
			case f.Run != "":
				env.Printf("  %s: %s; %s\n", f.Path, did[!f.New], f.Run)
			default:
				env.Printf("  %s: %s\n", f.Path, did[!f.New])
			}
		}
		for _, p := range n.Problems {
			env.Printf("  without %s\n", p)
		}
	}
}

// syncFailures returns an error if something failed on a node.
func syncFailures(nodes []api.NodeSync) error {
	failed := 0
	for _, n := range nodes {
		bad := n.Error != "" || len(n.Problems) > 0
		for _, f := range n.Files {
			bad = bad || f.Error != "" || f.Failed != ""
		}
		if bad {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d nodes are not as they should be", failed, len(nodes))
}
