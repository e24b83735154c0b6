package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/output"
)

func nodeApprove(env *cmdenv.Env) *cobra.Command {
	var dryRun, noSync bool
	c := &cobra.Command{
		Use:   "approve NODES",
		Short: "Let the boots that nodes have made get their secrets",
		Long: `Let the boots that nodes have made get their secrets.

With the secret policy approve-each-boot it is the latest boot of each node that is approved, and no other. With the policy tpm it is the
key in the TPM of the machine that made it, and every later boot of that machine gets its secrets without asking. With the policy mac
it is a machine that became its node by saying the serial number that was declared, which proves nothing. Look whether
it is the machine that you think it is. Nodes that run already get their files at once, unless --no-sync is given.`,
		Example: `  pando node approve pc001
  pando node approve @lab --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.ApproveNodes(ctx, api.NodeSelection{Select: args[0], DryRun: dryRun})
			if err != nil {
				return err
			}
			if err := cmdenv.PrintChanges(env, "approved", ch); err != nil || dryRun || noSync || env.JSON {
				return err
			}
			nodes, err := c.SyncNodes(ctx, api.SyncRequest{Select: args[0]})
			if err != nil {
				return err
			}
			printSynced(env, nodes, false)
			return syncFailures(nodes)
		}),
	}
	env.WriteFlags(c, &dryRun)
	c.Flags().BoolVar(&noSync, "no-sync", false, "do not wait for running nodes to get their files")
	return c
}

func nodeIdentity(env *cmdenv.Env) *cobra.Command {
	show := env.ReadFlags(&cobra.Command{
		Use:               "show NODE",
		Short:             "Show by which key a node is known, and which its latest boot proved",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(
					env.Out,
					map[string]string{"node": n.Name, "tpm_key": n.TPMKey, "proof": n.Proof, "withheld": n.Withheld},
				)
			}
			policy := ""
			for _, v := range n.Effective {
				if v.Setting == fleet.SettingSecrets {
					policy = fmt.Sprintf("%s (%s)", v.Value, v.From)
				}
			}
			output.Fields(env.Out, "node", n.Name, "secrets", policy, "approved TPM "+
				"key", cmp.Or(api.KeyPrint(n.TPMKey), "none"),
				"proved by its latest boot", cmp.Or(api.KeyPrint(n.Proof), "none"), "secrets withheld", n.Withheld)
			return nil
		}),
	})
	var dryRun bool
	reset := &cobra.Command{
		Use:               "reset NODES",
		Short:             "Forget the TPM keys of nodes; the next ones have to be approved",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.ResetNodes(ctx, api.NodeSelection{Select: args[0], DryRun: dryRun})
			if err != nil {
				return err
			}
			return cmdenv.PrintChanges(env, "reset", ch)
		}),
	}
	env.WriteFlags(reset, &dryRun)
	c := cmdenv.Noun("identity", "The key by which a node's machine is known", show, reset)
	c.GroupID = ""
	return c
}
