package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) rolloutCommand() *cobra.Command {
	return noun("rollout", "Groups on their way to another version, in waves",
		a.rolloutStart(), a.rolloutList(), a.rolloutShow(), a.rolloutWatch(),
		a.rolloutVerb("pause", "Take no node more; those that were taken go on", (*api.Client).PauseRollout),
		a.rolloutVerb("resume", "Go on with a rollout that is paused or has halted", (*api.Client).ResumeRollout),
		a.rolloutVerb("abort", "Return to the version before", (*api.Client).AbortRollout),
		a.rolloutDelete())
}

// theRollout finds what an argument names: a rollout, or the newest one of @GROUP.
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

func (a *app) completeRollouts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context) (ids []string, err error) {
		c, err := a.client()
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

func (a *app) rolloutList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list [@GROUP]",
		Short: "List rollouts, newest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			all, err := c.Rollouts(ctx, strings.TrimPrefix(arg(args, 0), "@"))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.RolloutList{Rollouts: all})
			}
			printRollouts(a.out, all, a.now())
			return nil
		}),
	})
}

func printRollouts(w io.Writer, all []api.Rollout, now time.Time) {
	t := newTable(w, "ROLLOUT", "STATE", "WAVE", "TO", "NODES", "BEGAN", "REASON")
	for _, r := range all {
		t.row(r.ID, string(r.State), waveText(r), string(r.Asked), phaseCounts(r), ago(now, r.Created), r.Reason)
	}
	t.flush()
}

// waveText is "1/4".
func waveText(r api.Rollout) string { return fmt.Sprintf("%d/%d", r.Wave+1, r.Waves) }

// phaseOrder is the order in which phases are shown: what has come furthest, first.
var phaseOrder = []fleet.RolloutPhase{
	fleet.PhasePassed,
	fleet.PhaseFailed,
	fleet.PhaseChecking,
	fleet.PhaseBooting,
	fleet.PhaseRebooting,
	fleet.PhaseDraining,
	fleet.PhaseWaiting,
	fleet.PhaseAway,
	fleet.PhaseReturned,
	fleet.PhaseLost,
	fleet.PhaseLeft,
}

// phaseCounts is "2 passed, 1 booting, 27 waiting".
func phaseCounts(r api.Rollout) string {
	var parts []string
	for _, p := range phaseOrder {
		if n := r.Phases[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) rolloutShow() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:               "show ROLLOUT|@GROUP",
		Short:             "Show a rollout, with each of its nodes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRollouts,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			id, err := theRollout(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := c.Rollout(ctx, id)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, r)
			}
			a.printRollout(r)
			return nil
		}),
	})
}

func (a *app) printRollout(r api.Rollout) {
	p := r.Plan
	hooks, usual := "", ""
	if r.Usual > 0 {
		usual = span(r.Usual)
	}
	for _, h := range [][2]string{{"drain", p.Drain}, {"undrain", p.Undrain}, {"reboot", p.Reboot}} {
		if h[1] != "" {
			hooks += " " + h[0] + ":" + h[1]
		}
	}
	fields(
		a.out,
		"rollout",
		r.ID,
		"group",
		r.Group,
		"state",
		string(r.State),
		"reason",
		r.Reason,
		"from",
		string(r.From),
		"to",
		string(r.To),
		"asked for",
		string(r.Asked),
		"wave",
		waveText(r),
		"nodes",
		phaseCounts(r),
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
		clock(r.Created),
		"ended",
		clock(r.Ended),
	)
	a.printf("\n")
	t := newTable(a.out, "NODE", "WAVE", "PHASE", "TARGET", "REASON")
	for _, n := range r.Nodes {
		_, _, d, _ := n.Target.Split()
		t.row(n.Node, strconv.Itoa(n.Wave+1), string(n.Phase), d.Short(), n.Reason)
	}
	t.flush()
}

func plain[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}

func (a *app) rolloutVerb(
	verb, short string,
	do func(*api.Client, context.Context, string) (api.Rollout, error),
) *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:               verb + " ROLLOUT|@GROUP",
		Short:             short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRollouts,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			id, err := theRollout(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := do(c, ctx, id)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, r)
			}
			a.printf("rollout %s: %s\n", r.ID, r.State)
			return nil
		}),
	})
}

func (a *app) rolloutDelete() *cobra.Command {
	return &cobra.Command{
		Use:               "delete ROLLOUT",
		Short:             "Forget a rollout that has ended",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRollouts,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteRollout(ctx, args[0]); err != nil {
				return err
			}
			a.printf("rollout %s deleted\n", args[0])
			return nil
		}),
	}
}
