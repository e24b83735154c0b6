package image

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"pando/internal/build"
	"pando/internal/build/extension"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/mount"
)

// extendFlags are the flags of `image extend`.
type extendFlags struct {
	name     string
	packages []string
	tree     string
	tags     []string
	force    bool
	release  bool
}

func imageExtend(env *cmdenv.Env) *cobra.Command {
	var f extendFlags
	c := &cobra.Command{
		Use:   "extend IMAGE --name NAME (--packages PACKAGE,... | --tree DIR | -- COMMAND [ARG...])",
		Short: "Build an extension: programs that running nodes get and lose without a reboot",
		Long: `Build, sign and store an extension of an image's version, on the machine of the server: what packages, a directory or a command
bring to /usr and /opt, as an image for systemd-sysext. NAME:latest moves to it, and so do the tags given with --tag; where nodes have the extension
by such a tag it stays, and moves by ` + "`pando image tag`" + ` or --release. An extension fits the version that it was made on, and no other. What is changed elsewhere, in /etc or /var, is told and not carried; what the programs cannot do
without (new users, the configuration of a service) makes it fail, unless --force is given. Nodes get it by ` + "`pando group set --extend`" + `.`,
		Example: `  pando image extend lab --name blender --packages blender
  pando image extend lab:stable --name tools --tree /srv/tools
  pando image extend lab --name site -- sh -c 'mkdir -p /opt/site && date > /opt/site/made'`,
		Args:              imageAndCommand,
		ValidArgsFunction: env.CompleteImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			return extendImage(env, cmd.Context(), args[0], args[1:], f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.name, "name", "", "name of the extension")
	fl.StringSliceVar(&f.packages, "packages", nil, "packages of the distribution, with what they depend on")
	fl.StringVar(&f.tree, "tree", "", "directory whose usr and opt are taken")
	fl.StringArrayVar(&f.tags, "tag", nil, "tag that moves to the new version, besides latest")
	fl.BoolVar(&f.release, "release", false,
		"move the tags even if nodes have the extension by them: they get it at once")
	fl.BoolVar(&f.force, "force", false, "make it though it lacks what its programs need")
	return env.ReadFlags(c)
}

func extendImage(env *cmdenv.Env, ctx context.Context, ref string, command []string, f extendFlags) error {
	if _, _, _, err := fleet.Ref(ref).Split(); err != nil {
		return exitcode.AsUsage(err)
	}
	ways := 0
	for _, given := range []bool{len(f.packages) > 0, f.tree != "", len(command) > 0} {
		if given {
			ways++
		}
	}
	if f.name == "" || ways != 1 {
		return exitcode.Usagef("give --name, and one of --packages, --tree and a command after --")
	}
	if env.Server == "" && os.Geteuid() == 0 { // a check below refuses others, and says why
		if err := mount.Private(); err != nil {
			return err
		}
	}
	b, err := openBuilder(env, ctx, f.name, f.tags)
	if err != nil {
		return err
	}
	defer b.close()
	b.release = f.release
	base, err := cmdenv.FindVersion(ctx, b.client, ref)
	if err != nil {
		return err
	}
	opt := build.ExtendOptions{Name: f.name, Base: base, Packages: f.packages, Tree: f.tree, Force: f.force}
	if len(command) > 0 {
		opt.Command = inside(env, command)
	}
	result, err := b.run(buildrun.ExtensionSteps(), func(o build.Options) (build.Result, error) {
		opt.Build = o
		return build.Extend(ctx, opt)
	})
	if err != nil {
		return extendHint(err)
	}
	return b.publish(ctx, result)
}

// extendHint adds a hint to an error of an extension's build.
func extendHint(err error) error {
	var essential *extension.EssentialError
	var exit *mount.ExitError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &essential):
		return exitcode.WithHint(
			err,
			"put the packages into the image and build that; or give nodes what is missing, and say --force",
		)
	case errors.As(err, &exit):
		return exitcode.WithHint(err, "no extension was made, and the image is as it was")
	}
	return buildrun.WithHint(err)
}
