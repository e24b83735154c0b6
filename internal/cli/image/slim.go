package image

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

func imageSlim(env *cmdenv.Env) *cobra.Command {
	lines := 15
	c := &cobra.Command{
		Use:   "slim IMAGE",
		Short: "Show what of an image no boot reads, and what slows its start",
		Long: `Show what of an image no recorded boot read, by package, and which enabled units and generators slow its start. What boots do
not read costs space on the server and nothing on the way to a node; a program that people start later is not read by a boot
either, so this is where to look and not what to remove.`,
		Example: `  pando image slim lab
  pando image slim lab:stable --lines 0`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, _, _, err := fleet.Ref(args[0]).Split(); err != nil {
				return exitcode.AsUsage(err)
			}
			s, err := c.ImageSlim(ctx, fleet.Ref(args[0]))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, s)
			}
			printSlim(env, s, lines)
			return nil
		}),
	}
	c.Flags().IntVar(&lines, "lines", lines, "lines of each table; 0: all")
	return env.ReadFlags(c)
}

func printSlim(env *cmdenv.Env, s api.ImageSlim, lines int) {
	if s.Boots == 0 {
		env.Printf(
			"%s: no boot of version %s was recorded yet, so what boots read is not known\n",
			s.Image,
			s.Version.Short(),
		)
	} else {
		output.Fields(env.Out, "image", s.Image+" "+s.Version.Short(), "boots", strconv.Itoa(s.Boots), "files",
			output.Size(s.Size), "never read", output.Used(s.Unread, s.Size))
		printUnread(env, "PACKAGE", s.Packages, lines)
		printUnread(env, "DIRECTORY", s.Places, lines)
	}
	env.Printf("\n")
	t := output.NewTable(env.Out, "STARTS", "KIND", "TOOK", "ADVICE")
	for _, u := range s.Units[:shown(lines, len(s.Units))] {
		took := ""
		if u.Took > 0 {
			took = output.Span(u.Took)
		}
		t.Row(u.Name, u.Kind, took, u.Advice)
	}
	t.Flush()
}

func printUnread(env *cmdenv.Env, head string, all []api.SlimPackage, lines int) {
	if len(all) == 0 {
		return
	}
	env.Printf("\n")
	t := output.NewTable(env.Out, head, "FILES", "NEVER READ")
	for _, p := range all[:shown(lines, len(all))] {
		t.Row(p.Name, strconv.Itoa(p.Files), output.Size(p.Size))
	}
	t.Flush()
}

// shown returns how many of n lines are shown. lines is the flag's value; 0: all.
func shown(lines, n int) int {
	if lines <= 0 {
		return n
	}
	return min(lines, n)
}
