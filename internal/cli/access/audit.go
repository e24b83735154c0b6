package access

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/output"
)

// AuditCommand returns the command `audit`.
func AuditCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("audit", "Who changed what", auditList(env))
}

func auditList(env *cmdenv.Env) *cobra.Command {
	var before int64
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List changes and logins, also refused ones, the newest first",
		Long: `List what was asked of the server that changes something, by whom, from where, and what became of it. Secrets are not
written down. The server keeps the last 100,000.`,
		Example: `  pando audit list
  pando audit list --limit 1000 --json`,
		Args: cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			all, err := c.Audit(ctx, before, limit)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.AuditList{Audit: all})
			}
			t := output.NewTable(env.Out, "NUMBER", "WHEN", "WHO", "FROM", "STATUS", "WHAT")
			for _, x := range all {
				what := x.Method + " " + x.Path
				if len(x.Body) > 0 {
					what += " " + string(x.Body)
				}
				if x.Error != "" {
					what += ": " + x.Error
				}
				t.Row(
					strconv.FormatInt(x.Seq, 10),
					output.Time(x.At),
					x.Who,
					cmp.Or(x.From, "-"),
					strconv.Itoa(x.Status),
					what,
				)
			}
			t.Flush()
			return nil
		}),
	}
	c.Flags().Int64Var(&before, "before", 0, "only those before this number")
	c.Flags().IntVar(&limit, "limit", 50, "how many, at most 1000")
	return env.ReadFlags(c)
}
