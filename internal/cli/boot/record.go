package boot

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
)

func bootRecord(env *cmdenv.Env) *cobra.Command {
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
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if until == "" && !cancel {
				return listRecordings(env, ctx, c, cmdenv.Arg(args, 0))
			}
			if len(args) == 0 {
				return exitcode.Usagef("name the node whose next boot is recorded")
			}
			r, err := c.SetRecording(ctx, args[0], api.RecordingSet{Until: until})
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, r)
			}
			if cancel {
				env.Printf("%s: the next boot is recorded as any other\n", r.Node)
				return nil
			}
			env.Printf(
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
	return env.ReadFlags(c)
}

// listRecordings prints requested and finished recordings, of one node or of all.
func listRecordings(env *cmdenv.Env, ctx context.Context, c *api.Client, node string) error {
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
	if env.JSON {
		return output.JSON(env.Out, out)
	}
	t := output.NewTable(env.Out, "NODE", "UNTIL", "STATE", "BOOT", "VERSION", "READS", "READ")
	for _, r := range out.Recordings {
		if r.Boot == "" {
			t.Row(r.Node, r.Until, "asked "+output.Time(r.Asked), "", "", "", "")
			continue
		}
		state := "recorded " + output.Time(r.Received)
		if !r.Reached {
			state = "no such mark came"
		}
		t.Row(r.Node, r.Until, state, string(r.Boot), r.Version.Short(), fmt.Sprint(r.Reads), output.Size(r.Read))
	}
	t.Flush()
	return nil
}
