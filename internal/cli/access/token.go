package access

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/output"
)

// TokenCommand returns the command `token`.
func TokenCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("token", "Credentials of remote operators", tokenCreate(env), tokenList(env), tokenDelete(env))
}

func tokenCreate(env *cmdenv.Env) *cobra.Command {
	var ttl time.Duration
	var role string
	var groups []string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, this once",
		Example: `  pando token create desk --ttl 720h
  pando token create prometheus --role viewer
  pando token create lab1-staff --groups lab1,lab1-test
  export PANDO_SERVER=boot.example PANDO_TOKEN=pando_...`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			t, err := c.CreateToken(
				ctx,
				api.TokenCreate{
					Name:   args[0],
					TTL:    ttl,
					Role:   fleet.Role(role),
					Groups: withoutAt(cmdenv.NotEmpty(groups)),
				},
			)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, t)
			}
			env.Printf("%s\n", t.Secret)
			return nil
		}),
	}
	c.Flags().StringVar(&role, "role", string(fleet.Operator), "what it may do: viewer, operator or admin")
	c.Flags().
		StringSliceVar(&groups, "groups", nil, "groups that it is for, with commas; of others it sees and changes "+
			"nothing (default: the whole site)")
	c.Flags().DurationVar(&ttl, "ttl", 0, "how long it is good for, such as 720h; 0: until it is deleted")
	return env.ReadFlags(c)
}

func tokenList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			tokens, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.TokenList{Tokens: tokens})
			}
			t := output.NewTable(env.Out, "TOKEN", "ROLE", "GROUPS", "CREATED", "USED", "EXPIRES")
			for _, k := range tokens {
				t.Row(
					k.Name,
					string(k.Role),
					cmp.Or(strings.Join(k.Groups, ","), "all"),
					output.Time(k.Created),
					output.Ago(env.Now(), k.Used),
					output.Time(k.Expires),
				)
			}
			t.Flush()
			return nil
		}),
	})
}

// withoutAt returns group names without the @ that node sets put before them.
func withoutAt(names []string) []string {
	for i, n := range names {
		names[i] = strings.TrimPrefix(n, "@")
	}
	return names
}

func tokenDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Make a token worthless at once",
		Args:  cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteToken(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("token %s deleted\n", args[0])
			return nil
		}),
	}
}
