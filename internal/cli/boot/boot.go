package boot

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
)

// Command returns the command `boot`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun(
		"boot",
		"Attempts to boot, and their timelines",
		bootList(env),
		bootShow(env),
		bootStats(env),
		bootCompare(env),
		bootExport(env),
		bootRecord(env),
	)
}

func bootList(env *cmdenv.Env) *cobra.Command {
	var limit int
	var failed bool
	c := &cobra.Command{
		Use:   "list [NODES]",
		Short: "List boots, newest first; or what is wrong, and what to do",
		Example: `  pando boot list @lab
  pando boot list --failed`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			list := c.Boots
			if failed {
				list = c.FailedBoots
			}
			boots, err := list(ctx, cmdenv.Arg(args, 0), limit)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.BootList{Boots: boots})
			}
			if failed {
				listing.Faults(env.Out, boots)
				return nil
			}
			t := output.NewTable(env.Out, "BOOT", "NODE", "STARTED", "STATE", "STAGE", "ELAPSED", "RECEIVED")
			for _, b := range boots {
				t.Row(
					string(b.ID),
					listing.BootOwner(b),
					output.Time(b.Started),
					string(b.State),
					string(b.Stage),
					output.Span(b.Elapsed),
					output.BySource(b.Bytes),
				)
			}
			t.Flush()
			return nil
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most so many")
	c.Flags().
		BoolVar(&failed, "failed", false, "the latest boots of nodes that something is wrong with, the newest "+
			"trouble first")
	return env.ReadFlags(c)
}

func bootShow(env *cmdenv.Env) *cobra.Command {
	var events, console bool
	c := &cobra.Command{
		Use:   "show NODE|BOOT",
		Short: "Show the timeline of a node's latest boot, or of one boot",
		Example: `  pando boot show pc001
  pando boot show 5f0c9ae1b2d34477 --events`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			b, err := findBoot(ctx, c, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, b)
			}
			printTimeline(env, b)
			if events {
				printEvents(env, b)
			}
			if console {
				env.Printf("\n")
				for _, line := range b.ConsoleLines() {
					env.Printf("%s\n", line)
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&console, "console", false, "print what stood on the node's screen, as far as it was told")
	c.Flags().BoolVar(&events, "events", false, "print every event too")
	return env.ReadFlags(c)
}

// findBoot finds a boot by its id of 16 hex digits or, if there is no such boot, by the name of a node.
func findBoot(ctx context.Context, c *api.Client, what string) (api.BootDetail, error) {
	if len(what) == 16 && strings.Trim(what, "0123456789abcdef") == "" {
		b, err := c.Boot(ctx, fleet.BootID(what))
		if !api.IsCode(err, api.NotFound) {
			return b, err
		}
	}
	return c.NodeBoot(ctx, what)
}
