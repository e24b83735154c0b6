package rollout

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/listing"
	"pando/internal/output"
)

// Command returns the command `rollout`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("rollout", "Groups on their way to another version, in waves",
		rolloutStart(env), rolloutList(env), rolloutShow(env), rolloutWatch(env),
		rolloutVerb(env, "pause", "Take no node more; those that were taken go on", (*api.Client).PauseRollout),
		rolloutVerb(env, "resume", "Go on with a rollout that is paused or has halted", (*api.Client).ResumeRollout),
		rolloutVerb(env, "abort", "Roll back to the version before", (*api.Client).AbortRollout),
		rolloutDelete(env))
}

// theRollout finds a rollout by its id, or by @GROUP the newest one of a group.
func theRollout(ctx context.Context, c *api.Client, what string) (string, error) {
	group, ok := strings.CutPrefix(what, "@")
	if !ok {
		return what, nil
	}
	all, err := c.Rollouts(ctx, group)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", api.NewError(api.NotFound, "group "+group+" has had no rollout", "")
	}
	return all[0].ID, nil
}

func completeRollouts(env *cmdenv.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return env.Complete(cmd, args, func(ctx context.Context) (ids []string, err error) {
			c, err := env.Client()
			if err != nil {
				return nil, err
			}
			all, err := c.Rollouts(ctx, "")
			for _, r := range all {
				ids = append(ids, r.ID)
			}
			return ids, err
		})
	}
}

func rolloutList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list [@GROUP]",
		Short: "List rollouts, newest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			all, err := c.Rollouts(ctx, strings.TrimPrefix(cmdenv.Arg(args, 0), "@"))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.RolloutList{Rollouts: all})
			}
			listing.Rollouts(env.Out, all, env.Now())
			return nil
		}),
	})
}

func rolloutShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               "show ROLLOUT|@GROUP",
		Short:             "Show a rollout, with each of its nodes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRollouts(env),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			id, err := theRollout(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := c.Rollout(ctx, id)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, r)
			}
			printRollout(env, r)
			return nil
		}),
	})
}

func printRollout(env *cmdenv.Env, r api.Rollout) {
	p := r.Plan
	hooks, usual := "", ""
	if r.Usual > 0 {
		usual = output.Span(r.Usual)
	}
	for _, h := range [][2]string{{"drain", p.Drain}, {"undrain", p.Undrain}, {"reboot", p.Reboot}} {
		if h[1] != "" {
			hooks += " " + h[0] + ":" + h[1]
		}
	}
	output.Fields(
		env.Out,
		"rollout",
		r.ID,
		"group",
		r.Group,
		"state",
		r.State.Text(),
		"reason",
		r.Reason,
		"from",
		string(r.From),
		"to",
		string(r.To),
		"asked for",
		string(r.Asked),
		"wave",
		listing.WaveText(r),
		"nodes",
		listing.PhaseCounts(r),
		"max unavailable",
		string(p.MaxUnavailable),
		"gate",
		strings.Join(plain(p.Gates), ", "),
		"on fail",
		string(p.OnFail),
		"windows",
		strings.TrimSpace(strings.Join(plain(p.Windows), "; ")+" "+p.Zone),
		"hooks",
		strings.TrimSpace(hooks),
		"method",
		string(p.Method.Effective()),
		"usual boot",
		usual,
		"begun by",
		r.Who,
		"began",
		output.Time(r.Created),
		"ended",
		output.Time(r.Ended),
	)
	env.Printf("\n")
	t := output.NewTable(env.Out, "NODE", "WAVE", "PHASE", "TARGET", "REASON")
	for _, n := range r.Nodes {
		_, _, d, _ := n.Target.Split()
		t.Row(n.Node, strconv.Itoa(n.Wave+1), listing.PhaseText(n.Phase), d.Short(), n.Reason)
	}
	t.Flush()
}

func plain[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}

func rolloutVerb(env *cmdenv.Env,
	verb, short string,
	do func(*api.Client, context.Context, string) (api.Rollout, error),
) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               verb + " ROLLOUT|@GROUP",
		Short:             short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRollouts(env),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			id, err := theRollout(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := do(c, ctx, id)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, r)
			}
			env.Printf("rollout %s: %s\n", r.ID, r.State.Text())
			return nil
		}),
	})
}

func rolloutDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:               "delete ROLLOUT",
		Short:             "Forget a rollout that has ended",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRollouts(env),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteRollout(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("rollout %s deleted\n", args[0])
			return nil
		}),
	}
}
