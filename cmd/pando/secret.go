package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) secretCommand() *cobra.Command {
	c := noun("secret", "Values that config files of some nodes have in them",
		a.secretList(), a.secretSet(), a.secretDelete())
	c.Long = `A secret is kept encrypted on the server and put into config files by {{secret "NAME"}}, for the nodes that may have it. No command and
no request tells its value. What a boot has to show before it gets secrets is a setting of its group: pando group set GROUP --secrets
mac|approve-each-boot|tpm (docs/security.md).`
	return c
}

func (a *app) secretList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list",
		Short: "List secrets, and for whom they are",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			all, err := c.Secrets(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.SecretList{Secrets: all})
			}
			t := newTable(a.out, "SECRET", "FOR", "CHANGED")
			for _, s := range all {
				t.row(s.Name, join(s.For), clock(s.Changed))
			}
			t.flush()
			return nil
		}),
	})
}

func (a *app) secretSet() *cobra.Command {
	var from string
	var scopes []string
	c := &cobra.Command{
		Use:   "set SECRET",
		Short: "Set the value of a secret, or for whom it is",
		Long: `Set the value of a secret, or for whom it is.

The value is the bytes of a file, or of standard input, as they are: a line break at the end belongs to it. It is never an argument,
which other users of the machine could read. What is not given stays as it was.`,
		Example: `  pando secret set munge --from /etc/munge/munge.key --for @cluster
  printf %s "$TOKEN" | pando secret set join-token --from - --for class:worker --for node:pc001`,
		Args: cobra.ExactArgs(1),
	}
	fl := c.Flags()
	fl.StringVar(&from, "from", "", "file with the value; -: standard input")
	fl.StringArrayVar(
		&scopes,
		"for",
		nil,
		"nodes that may have it: all, group:NAME, class:NAME or node:NAME; one empty: none",
	)
	fl.BoolVar(&a.json, "json", false, "print JSON, the same fields as the HTTP API")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.call(func(ctx context.Context, c *api.Client, args []string) error {
			req := api.SecretSet{Name: args[0]}
			if from != "" {
				value, err := a.readFile(from)
				if err != nil {
					return err
				}
				if len(value) == 0 {
					return usagef("%s is empty: a secret has a value", from)
				}
				req.Value = value
			}
			if cmd.Flags().Changed("for") {
				list := []fleet.Scope{}
				for _, text := range notEmpty(scopes) {
					s, err := fleet.ParseScope(text)
					if err != nil {
						return &usageError{err}
					}
					list = append(list, s)
				}
				req.For = &list
			}
			s, err := c.SetSecret(ctx, req)
			if err != nil {
				return err
			}
			return a.printSecret(s)
		})(cmd, args)
	}
	return c
}

func (a *app) printSecret(s fleet.Secret) error {
	if a.json {
		return writeJSON(a.out, s)
	}
	whom := join(s.For)
	if whom == "" {
		whom = "nobody yet"
	}
	a.printf("secret %s is for %s\n", s.Name, whom)
	return nil
}

func (a *app) secretDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete SECRET",
		Short: "Forget a secret; files that need it are made no more",
		Args:  cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteSecret(ctx, args[0]); err != nil {
				return err
			}
			a.printf("secret %s deleted\n", args[0])
			return nil
		}),
	}
}

func (a *app) nodeApprove() *cobra.Command {
	var dryRun, noSync bool
	c := &cobra.Command{
		Use:   "approve NODES",
		Short: "Let the boots that nodes have made get their secrets",
		Long: `Let the boots that nodes have made get their secrets.

With the secret policy approve-each-boot it is the latest boot of each node that is approved, and no other. With the policy tpm it is the
key in the TPM of the machine that made it, and every later boot of that machine gets its secrets without asking. Look whether
it is the machine that you think it is. Nodes that run already get their files at once, unless --no-sync is given.`,
		Example: `  pando node approve pc001
  pando node approve @lab --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.ApproveNodes(ctx, api.NodeSelection{Select: args[0], DryRun: dryRun})
			if err != nil {
				return err
			}
			if err := a.printChanges("approved", ch); err != nil || dryRun || noSync || a.json {
				return err
			}
			nodes, err := c.SyncNodes(ctx, api.SyncRequest{Select: args[0]})
			if err != nil {
				return err
			}
			a.printSynced(nodes, false)
			return syncFailures(nodes)
		}),
	}
	a.writeFlags(c, &dryRun)
	c.Flags().BoolVar(&noSync, "no-sync", false, "do not wait for running nodes to get their files")
	return c
}

func (a *app) nodeIdentity() *cobra.Command {
	show := a.readFlags(&cobra.Command{
		Use:               "show NODE",
		Short:             "Show by which key a node is known, and which its latest boot proved",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(
					a.out,
					map[string]string{"node": n.Name, "tpm_key": n.TPMKey, "proof": n.Proof, "withheld": n.Withheld},
				)
			}
			policy := ""
			for _, v := range n.Effective {
				if v.Setting == fleet.SettingSecrets {
					policy = fmt.Sprintf("%s (%s)", v.Value, v.From)
				}
			}
			fields(a.out, "node", n.Name, "secrets", policy, "approved TPM key", cmp.Or(api.KeyPrint(n.TPMKey), "none"),
				"proved by its latest boot", cmp.Or(api.KeyPrint(n.Proof), "none"), "secrets withheld", n.Withheld)
			return nil
		}),
	})
	var dryRun bool
	reset := &cobra.Command{
		Use:               "reset NODES",
		Short:             "Forget the TPM keys of nodes; the next ones have to be approved",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.ResetNodes(ctx, api.NodeSelection{Select: args[0], DryRun: dryRun})
			if err != nil {
				return err
			}
			return a.printChanges("reset", ch)
		}),
	}
	a.writeFlags(reset, &dryRun)
	c := noun("identity", "The key by which a node's machine is known", show, reset)
	c.GroupID = ""
	return c
}
