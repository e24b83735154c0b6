package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) groupCommand() *cobra.Command {
	return noun("group", "Sets of nodes with one desired image",
		a.groupList(), a.groupShow(), a.groupCreate(), a.groupSet(), a.groupDelete(),
		a.passwordCommand("group", a.completeGroups, (*api.Client).SetGroupPassword))
}

func (a *app) groupList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list",
		Short: "List groups, with the image that each desires",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			groups, err := c.Groups(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.GroupList{Groups: groups})
			}
			printGroups(a.out, groups)
			return nil
		}),
	})
}

func printGroups(w io.Writer, groups []api.Group) {
	t := newTable(w, "GROUP", "IMAGE", "VERSION", "NODES")
	for _, g := range groups {
		t.row(g.Name, string(g.Image), g.Desired.Short(), strconv.Itoa(g.Nodes))
	}
	t.flush()
}

func (a *app) groupShow() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:               "show GROUP",
		Short:             "Show a group",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeGroups,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			g, err := c.Group(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, g)
			}
			fields(a.out, append([]string{
				"group", g.Name,
				"image", string(g.Image),
				"version", string(g.Desired),
				"nodes", strconv.Itoa(g.Nodes),
				"kernel args", strings.Join(g.KernelArgs, " "),
			}, settingPairs(g.Settings)...)...)
			return nil
		}),
	})
}

// groupFlags are the flags that `group create` and `group set` share.
type groupFlags struct {
	image      string
	kernelArgs []string
	dryRun     bool
	settingFlags
}

func (f *groupFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.image, "image", "", "desired image: NAME, NAME:TAG or NAME@sha256:...")
	fl.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "kernel argument, after the image's; one empty: none")
	f.settingFlags.add(c)
}

func (a *app) groupCreate() *cobra.Command {
	var f groupFlags
	c := &cobra.Command{
		Use:     "create GROUP",
		Short:   "Make a group",
		Example: `  pando group create lab --image debian:stable --authorized-keys ~/.ssh/id_ed25519.pub`,
		Args:    cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			s, err := f.settings()
			if err != nil {
				return err
			}
			g, err := c.CreateGroup(ctx, fleet.Group{
				Name: args[0], Image: fleet.Ref(f.image), KernelArgs: notEmpty(f.kernelArgs), Settings: s,
			})
			if err != nil {
				return err
			}
			a.printf("group %s created\n", g.Name)
			return nil
		}),
	}
	f.add(c)
	return c
}

func (a *app) groupSet() *cobra.Command {
	var f groupFlags
	c := &cobra.Command{
		Use:               "set GROUP",
		Short:             "Change a group; its nodes follow at their next boot, in extensions at once",
		Example:           `  pando group set lab --image debian:stable --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeGroups,
	}
	f.add(c)
	a.writeFlags(c, &f.dryRun)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.call(func(ctx context.Context, c *api.Client, args []string) error {
			req, err := f.request(cmd)
			if err != nil {
				return err
			}
			ch, err := c.SetGroup(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.printGroupChange(args[0], ch)
		})(cmd, args)
	}
	return c
}

func (f *groupFlags) request(c *cobra.Command) (api.GroupSet, error) {
	s, err := f.settings()
	return api.GroupSet{
		DryRun:     f.dryRun,
		Image:      given(c, "image", fleet.Ref(f.image)),
		KernelArgs: given(c, "kernel-arg", notEmpty(f.kernelArgs)),
		Settings:   s,
	}, err
}

func (a *app) printGroupChange(name string, ch api.GroupChange) error {
	if a.json {
		return writeJSON(a.out, ch)
	}
	a.printChange("group "+name, ch.Fields, ch.DryRun, len(ch.Nodes))
	return nil
}

// printChange tells what changed of something that nodes boot by.
func (a *app) printChange(of string, changed []string, dryRun bool, nodes int) {
	what := strings.Join(changed, "; ")
	if what == "" {
		what = "as it was"
	}
	a.printf("%s: %s\n", of, what)
	now := slices.ContainsFunc(changed, atOnce)
	later := slices.ContainsFunc(changed, func(c string) bool { return !atOnce(c) })
	switch {
	case dryRun && now && !later:
		a.printf("%d nodes would follow, those that run at once; nothing was done\n", nodes)
	case dryRun:
		a.printf("the next boot of %d nodes would differ; nothing was done\n", nodes)
	case now && later:
		a.printf("the next boot of %d nodes differs; in extensions, those that run follow at once\n", nodes)
	case now:
		a.printf("%d nodes follow: those that run at once, others at their next boot\n", nodes)
	case later:
		a.printf("the next boot of %d nodes differs\n", nodes)
	}
}

func (a *app) groupDelete() *cobra.Command {
	return &cobra.Command{
		Use:               "delete GROUP",
		Short:             "Remove a group that has no nodes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeGroups,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteGroup(ctx, args[0]); err != nil {
				return err
			}
			a.printf("group %s deleted\n", args[0])
			return nil
		}),
	}
}
