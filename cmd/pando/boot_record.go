package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pando/internal/api"
)

func (a *app) bootRecord() *cobra.Command {
	var until string
	var cancel bool
	c := &cobra.Command{
		Use:   "record [NODE]",
		Short: "Record what a node's next boot reads until a mark, or list such recordings",
		Long: `The boot packs of a version hold what its boots read until half a minute after they have booted. With --until the
next boot of a node is recorded until the image calls ` + "`pando-init mark MARK`" + `, say when the browser is ready, or for 15
minutes after it has booted. Its version gets a new boot pack that has all of it; what comes after booted is sent last.
Without flags, recordings are listed: those that are asked for, and those that were made.`,
		Example: `  pando boot record pc001 --until browser
  pando boot record
  pando image trace lab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if until == "" && !cancel {
				return a.listRecordings(ctx, c, arg(args, 0))
			}
			if len(args) == 0 {
				return usagef("name the node whose next boot is recorded")
			}
			r, err := c.SetRecording(ctx, args[0], api.RecordingSet{Until: until})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, r)
			}
			if cancel {
				a.printf("%s: the next boot is recorded as any other\n", r.Node)
				return nil
			}
			a.printf(
				"%s: the next boot is recorded until %s; reboot it, and see `pando boot record`\n",
				r.Node,
				r.Until,
			)
			return nil
		}),
	}
	c.Flags().StringVar(&until, "until", "", "name of the mark that the image makes; words are joined by dashes")
	c.Flags().BoolVar(&cancel, "cancel", false, "record the next boot as any other")
	c.MarkFlagsMutuallyExclusive("until", "cancel")
	return a.readFlags(c)
}

// listRecordings prints what is asked for and what was recorded, of one node or of all.
func (a *app) listRecordings(ctx context.Context, c *api.Client, node string) error {
	all, err := c.Recordings(ctx)
	if err != nil {
		return err
	}
	out := api.RecordingList{Recordings: []api.Recording{}}
	for _, r := range all {
		if node == "" || r.Node == node {
			out.Recordings = append(out.Recordings, r)
		}
	}
	if a.json {
		return writeJSON(a.out, out)
	}
	t := newTable(a.out, "NODE", "UNTIL", "STATE", "BOOT", "VERSION", "READS", "READ")
	for _, r := range out.Recordings {
		if r.Boot == "" {
			t.row(r.Node, r.Until, "asked "+clock(r.Asked), "", "", "", "")
			continue
		}
		state := "recorded " + clock(r.Received)
		if !r.Reached {
			state = "no such mark came"
		}
		t.row(r.Node, r.Until, state, string(r.Boot), r.Version.Short(), fmt.Sprint(r.Reads), size(r.Read))
	}
	t.flush()
	return nil
}
