package group

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/settingflags"
)

// Command returns the command `group`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("group", "Sets of nodes that boot one image",
		groupList(env), groupShow(env), groupCreate(env), groupSet(env), groupDelete(env),
		cmdenv.PasswordCommand(env, "group", env.CompleteGroups, (*api.Client).SetGroupPassword))
}

func groupList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List groups, with the image that each desires",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			groups, err := c.Groups(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.GroupList{Groups: groups})
			}
			listing.Groups(env.Out, groups)
			return nil
		}),
	})
}

func groupShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               "show GROUP",
		Short:             "Show a group",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteGroups,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			g, err := c.Group(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, g)
			}
			output.Fields(env.Out, append([]string{
				"group", g.Name,
				"image", wanted(g),
				"should run", string(g.Desired),
				"nodes", strconv.Itoa(g.Nodes),
				"kernel args", strings.Join(g.KernelArgs, " "),
			}, settingflags.Pairs(g.Settings)...)...)
			return nil
		}),
	})
}

// wanted returns the image of a group, and says whether the group follows its tag.
func wanted(g api.Group) string {
	if !g.Follow {
		return g.Image.Short()
	}
	return string(g.Image) + ", followed: what this tag is moved to, by a build too, boots next " +
		"(--image NAME stops that)"
}

// groupFlags are the flags that `group create` and `group set` share.
type groupFlags struct {
	image      string
	follow     bool
	kernelArgs []string
	dryRun     bool
	settingflags.Flags
}

func (f *groupFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.image, "image", "", "version that its nodes boot: NAME, NAME:TAG or NAME@VERSION; a tag is looked "+
		"up once, now")
	fl.BoolVar(&f.follow, "follow", false, "follow the tag of --image: each version that it is moved to, by a build "+
		"too, boots at once in the whole group")
	fl.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "kernel argument, after the image's; one empty: none")
	f.Flags.Add(c)
}

func groupCreate(env *cmdenv.Env) *cobra.Command {
	var f groupFlags
	c := &cobra.Command{
		Use:     "create GROUP",
		Short:   "Make a group",
		Example: `  pando group create lab --image debian:stable --authorized-keys ~/.ssh/id_ed25519.pub`,
		Args:    cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			s, err := f.Settings()
			if err != nil {
				return err
			}
			g, err := c.CreateGroup(ctx, fleet.Group{
				Name: args[0], Image: fleet.Ref(f.image), Follow: f.follow,
				KernelArgs: cmdenv.NotEmpty(f.kernelArgs), Settings: s,
			})
			if err != nil {
				return err
			}
			env.Printf("group %s created\n", g.Name)
			return nil
		}),
	}
	f.add(c)
	return c
}

func groupSet(env *cmdenv.Env) *cobra.Command {
	var f groupFlags
	c := &cobra.Command{
		Use:               "set GROUP",
		Short:             "Change a group; its nodes follow at their next boot, in extensions at once",
		Example:           `  pando group set lab --image debian:stable --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteGroups,
	}
	f.add(c)
	env.WriteFlags(c, &f.dryRun)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			req, err := f.request(cmd)
			if err != nil {
				return err
			}
			ch, err := c.SetGroup(ctx, args[0], req)
			if err != nil {
				return err
			}
			return printGroupChange(env, args[0], ch)
		})(cmd, args)
	}
	return c
}

func (f *groupFlags) request(c *cobra.Command) (api.GroupSet, error) {
	s, err := f.Settings()
	return api.GroupSet{
		DryRun:     f.dryRun,
		Image:      cmdenv.Given(c, "image", fleet.Ref(f.image)),
		Follow:     f.follow,
		KernelArgs: cmdenv.Given(c, "kernel-arg", cmdenv.NotEmpty(f.kernelArgs)),
		Settings:   s,
	}, err
}

func printGroupChange(env *cmdenv.Env, name string, ch api.GroupChange) error {
	if env.JSON {
		return output.JSON(env.Out, ch)
	}
	cmdenv.PrintChange(env, "group "+name, ch.Fields, ch.DryRun, len(ch.Nodes))
	return nil
}

func groupDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:               "delete GROUP",
		Short:             "Remove a group that has no nodes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteGroups,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteGroup(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("group %s deleted\n", args[0])
			return nil
		}),
	}
}
