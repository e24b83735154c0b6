package config

import (
	"context"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

// SecretCommand returns the command `secret`.
func SecretCommand(env *cmdenv.Env) *cobra.Command {
	c := cmdenv.Noun("secret", "Values that config files of some nodes have in them",
		secretList(env), secretSet(env), secretDelete(env))
	c.Long = `A secret is kept encrypted on the server and put into config files by {{secret "NAME"}}, for the nodes that may have it. No command and
no request tells its value. What a boot has to show before it gets secrets is a setting of its group: pando group set GROUP --secrets
mac|approve-each-boot|tpm (docs/security.md).`
	return c
}

func secretList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List secrets, and for whom they are",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			all, err := c.Secrets(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.SecretList{Secrets: all})
			}
			t := output.NewTable(env.Out, "SECRET", "FOR", "CHANGED")
			for _, s := range all {
				t.Row(s.Name, output.Join(s.For), output.Time(s.Changed))
			}
			t.Flush()
			return nil
		}),
	})
}

func secretSet(env *cmdenv.Env) *cobra.Command {
	var from string
	var scopes []string
	c := &cobra.Command{
		Use:   "set SECRET",
		Short: "Set the value of a secret, or for whom it is",
		Long: `Set the value of a secret, or for whom it is.

The value is the bytes of a file, or of standard input, as they are: a line break at the end belongs to it. It is never an argument,
which other users of the machine could read. What is not given stays as it was.`,
		Example: `  pando secret set munge --from /etc/munge/munge.key --for @cluster
  printf %s "$TOKEN" | pando secret set join-token --from - --for @worker --for node:pc001`,
		Args: cobra.ExactArgs(1),
	}
	fl := c.Flags()
	fl.StringVar(&from, "from", "", "file with the value; -: standard input")
	fl.StringArrayVar(
		&scopes,
		"for",
		nil,
		"nodes that may have it: all, group:NAME or node:NAME; one empty: none",
	)
	fl.BoolVar(&env.JSON, "json", false, "print JSON, the same fields as the HTTP API")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			req := api.SecretSet{Name: args[0]}
			if from != "" {
				value, err := env.ReadFile(from)
				if err != nil {
					return err
				}
				if len(value) == 0 {
					return exitcode.Usagef("%s is empty: a secret has a value", from)
				}
				req.Value = value
			}
			if cmd.Flags().Changed("for") {
				list := []fleet.Scope{}
				for _, text := range cmdenv.NotEmpty(scopes) {
					s, err := fleet.ParseScope(text)
					if err != nil {
						return exitcode.AsUsage(err)
					}
					list = append(list, s)
				}
				req.For = &list
			}
			s, err := c.SetSecret(ctx, req)
			if err != nil {
				return err
			}
			return printSecret(env, s)
		})(cmd, args)
	}
	return c
}

func printSecret(env *cmdenv.Env, s fleet.Secret) error {
	if env.JSON {
		return output.JSON(env.Out, s)
	}
	whom := output.Join(s.For)
	if whom == "" {
		whom = "nobody yet"
	}
	env.Printf("secret %s is for %s\n", s.Name, whom)
	return nil
}

func secretDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete SECRET",
		Short: "Forget a secret; files that need it are made no more",
		Args:  cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteSecret(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("secret %s deleted\n", args[0])
			return nil
		}),
	}
}
