package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) bootCommand() *cobra.Command {
	return noun(
		"boot",
		"Attempts to boot, and their timelines",
		a.bootList(),
		a.bootShow(),
		a.bootStats(),
		a.bootCompare(),
		a.bootExport(),
		a.bootRecord(),
	)
}

func (a *app) bootList() *cobra.Command {
	var limit int
	var failed bool
	c := &cobra.Command{
		Use:   "list [NODES]",
		Short: "List boots, newest first; or what is wrong, and what to do",
		Example: `  pando boot list @lab
  pando boot list --failed`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			list := c.Boots
			if failed {
				list = c.FailedBoots
			}
			boots, err := list(ctx, arg(args, 0), limit)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.BootList{Boots: boots})
			}
			if failed {
				a.printFaults(boots)
				return nil
			}
			t := newTable(a.out, "BOOT", "NODE", "STARTED", "STATE", "STAGE", "ELAPSED", "RECEIVED")
			for _, b := range boots {
				t.row(
					string(b.ID),
					bootOwner(b),
					clock(b.Started),
					string(b.State),
					string(b.Stage),
					span(b.Elapsed),
					sources(b.Bytes),
				)
			}
			t.flush()
			return nil
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most so many")
	c.Flags().
		BoolVar(&failed, "failed", false, "the latest boots of nodes that something is wrong with, the newest "+
			"trouble first")
	return a.readFlags(c)
}

// printFaults tells what is wrong, and what to do.
func (a *app) printFaults(boots []api.Boot) {
	if len(boots) == 0 {
		a.printf("no node's latest boot has anything wrong with it\n")
		return
	}
	for _, b := range boots {
		a.printf("%s  %s  %s\n  %s\n  to do: %s\n", bootOwner(b), b.ID, clock(b.Fault.Since), b.Fault.Text, b.Fault.Do)
	}
}

// bootOwner is the node of a boot, or the MAC of a machine that nobody adopted.
func bootOwner(b api.Boot) string {
	if b.Node == "" {
		return b.MAC.String()
	}
	return b.Node
}

func (a *app) bootShow() *cobra.Command {
	var events, console bool
	c := &cobra.Command{
		Use:   "show NODE|BOOT",
		Short: "Show the timeline of a node's latest boot, or of one boot",
		Example: `  pando boot show pc001
  pando boot show 5f0c9ae1b2d34477 --events`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			b, err := findBoot(ctx, c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, b)
			}
			a.printTimeline(b)
			if events {
				a.printEvents(b)
			}
			if console {
				a.printf("\n%s\n", strings.Join(b.ConsoleLines(), "\n"))
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&console, "console", false, "print what stood on the node's screen, as far as it was told")
	c.Flags().BoolVar(&events, "events", false, "print every event too")
	return a.readFlags(c)
}

// findBoot takes 16 hex digits for a boot id first: a node of such a name is found when no boot is.
func findBoot(ctx context.Context, c *api.Client, what string) (api.BootDetail, error) {
	if len(what) == 16 && strings.Trim(what, "0123456789abcdef") == "" {
		b, err := c.Boot(ctx, fleet.BootID(what))
		if !api.IsCode(err, api.NotFound) {
			return b, err
		}
	}
	return c.NodeBoot(ctx, what)
}
