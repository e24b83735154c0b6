package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/terminal"
	"pando/internal/trace"
)

func rolloutWatch(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "watch ROLLOUT|@GROUP",
		Short: "Watch a rollout until it ends",
		Long: `Watch a rollout until it ends: on a terminal a table that is drawn in place, otherwise a line for each thing that happens, with
--json an event of the API for each. It ends with 0 when the rollout is done, and with 9 when it halted or was rolled back.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRollouts(env),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			id, err := theRollout(ctx, c, args[0])
			if err != nil {
				return err
			}
			return watchRollout(env, ctx, c, id)
		}),
	})
}

// watchRollout shows a rollout until it ends. If the server stops answering, it waits for the server.
func watchRollout(env *cmdenv.Env, ctx context.Context, c *api.Client, id string) error {
	r, err := c.Rollout(ctx, id)
	if err != nil {
		return err
	}
	tty := terminal.Screen(env.Out)
	if env.JSON {
		tty = nil
	}
	if tty != nil {
		fmt.Fprint(tty, terminal.HideCursor+terminal.ClearScreen)
		defer fmt.Fprint(tty, terminal.ShowCursor)
	}
	last, err := c.Events(ctx, -1, 1)
	if err != nil {
		return err
	}
	seen := last.Last
	tick := time.NewTicker(terminal.DrawEvery)
	defer tick.Stop()
	for {
		if tty != nil {
			drawRollout(env, tty, r)
		} else if seen, err = rolloutEvents(env, ctx, c, id, seen); err != nil {
			return err
		}
		if !r.State.Live() || r.State == fleet.RolloutHalted {
			return endOfRollout(env, r)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		next, err := c.Rollout(ctx, id)
		var gone *api.UnreachableError
		switch {
		case errors.As(err, &gone):
			r.Reason = "no answer from " + gone.Server
		case err != nil:
			return err
		default:
			r = next
		}
	}
}

// endOfRollout prints the result of a rollout, and returns an error if the rollout failed.
func endOfRollout(env *cmdenv.Env, r api.Rollout) error {
	if !env.JSON {
		env.Printf("rollout %s: %s\n", r.ID, strings.TrimSuffix(r.State.Text()+": "+r.Reason, ": "))
	}
	if r.State == fleet.RolloutDone {
		return nil
	}
	return exitcode.Silent(exitcode.Returned)
}

// rolloutEvents prints the rollout's events after a sequence number, and returns the number of the last event.
func rolloutEvents(env *cmdenv.Env, ctx context.Context, c *api.Client, id string, after int64) (int64, error) {
	for {
		l, err := c.Events(ctx, after, 0)
		var gone *api.UnreachableError
		if errors.As(err, &gone) {
			return after, nil
		}
		if err != nil || len(l.Events) == 0 {
			return after, err
		}
		for _, e := range l.Events {
			after = e.Seq
			if e.Stage != trace.Rollout || e.Attrs["rollout"] != id {
				continue
			}
			if err := printRolloutEvent(env, e); err != nil {
				return after, err
			}
		}
	}
}

func printRolloutEvent(env *cmdenv.Env, e trace.Event) error {
	if env.JSON {
		return output.JSONLine(env.Out, e)
	}
	who := e.Node
	if who == "" {
		who = "@" + e.Attrs["group"]
	}
	return output.Fprintf(env.Out, "%s %-17s %s\n", e.Time.Local().Format("15:04:05"), who, e.Message)
}

// drawRollout draws the table in place.
func drawRollout(env *cmdenv.Env, tty *os.File, r api.Rollout) {
	width, height := terminal.Size(tty)
	fmt.Fprint(tty, terminal.CursorHome+rolloutTable(r, width, height, env.Now())+terminal.ClearBelow)
}

// rolloutTable is the live view: a bar, and the nodes that are changing.
func rolloutTable(r api.Rollout, width, height int, now time.Time) string {
	var out []string
	line := func(s string) { out = append(out, s) }
	settled := r.Phases[fleet.PhasePassed] + r.Phases[fleet.PhaseAway] + r.Phases[fleet.PhaseReturned] +
		r.Phases[fleet.PhaseLost] + r.Phases[fleet.PhaseLeft]
	line(
		fmt.Sprintf(
			"rollout %s  %s  wave %s  %s",
			r.ID,
			r.State.Text(),
			listing.WaveText(r),
			output.Span(now.Sub(r.Created)),
		),
	)
	line(terminal.Bar(int64(settled), int64(len(r.Nodes))) + listing.PhaseCounts(r))
	line(r.Reason)
	room := max(1, height-5)
	for _, n := range r.Nodes {
		busy := n.Phase != fleet.PhasePassed && n.Phase != fleet.PhaseWaiting && n.Phase != fleet.PhaseReturned &&
			n.Phase != fleet.PhaseLeft
		if !busy || room == 0 {
			continue
		}
		room--
		line(
			strings.TrimRight(
				fmt.Sprintf(
					"%-20s %-11s %8s  %s",
					terminal.Cut(n.Node, 20),
					listing.PhaseText(n.Phase),
					output.Span(r.Clock-n.At),
					n.Reason,
				),
				" ",
			),
		)
	}
	return terminal.Lines(out, width, height)
}
