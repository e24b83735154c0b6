package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) imageSlim() *cobra.Command {
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
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, _, _, err := fleet.Ref(args[0]).Split(); err != nil {
				return &usageError{err}
			}
			s, err := c.ImageSlim(ctx, fleet.Ref(args[0]))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, s)
			}
			a.printSlim(s, lines)
			return nil
		}),
	}
	c.Flags().IntVar(&lines, "lines", lines, "lines of each table; 0: all")
	return a.readFlags(c)
}

func (a *app) printSlim(s api.ImageSlim, lines int) {
	if s.Boots == 0 {
		a.printf(
			"%s: no boot of version %s was recorded yet, so what boots read is not known\n",
			s.Image,
			s.Version.Short(),
		)
	} else {
		fields(a.out, "image", s.Image+" "+s.Version.Short(), "boots", strconv.Itoa(s.Boots), "files", size(s.Size), "never read", used(s.Unread, s.Size))
		a.printUnread("PACKAGE", s.Packages, lines)
		a.printUnread("DIRECTORY", s.Places, lines)
	}
	a.printf("\n")
	t := newTable(a.out, "STARTS", "KIND", "TOOK", "ADVICE")
	for _, u := range s.Units[:shown(lines, len(s.Units))] {
		took := ""
		if u.Took > 0 {
			took = span(u.Took)
		}
		t.row(u.Name, u.Kind, took, u.Advice)
	}
	t.flush()
}

func (a *app) printUnread(head string, all []api.SlimPackage, lines int) {
	if len(all) == 0 {
		return
	}
	a.printf("\n")
	t := newTable(a.out, head, "FILES", "NEVER READ")
	for _, p := range all[:shown(lines, len(all))] {
		t.row(p.Name, strconv.Itoa(p.Files), size(p.Size))
	}
	t.flush()
}

// shown is how many of n lines are shown; 0: all.
func shown(lines, n int) int {
	if lines <= 0 {
		return n
	}
	return min(lines, n)
}
