package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"pando/internal/cli/access"
	"pando/internal/cli/apply"
	"pando/internal/cli/boot"
	"pando/internal/cli/config"
	"pando/internal/cli/doctor"
	"pando/internal/cli/group"
	"pando/internal/cli/image"
	"pando/internal/cli/key"
	"pando/internal/cli/loader"
	"pando/internal/cli/node"
	"pando/internal/cli/rollout"
	"pando/internal/cli/serve"
	"pando/internal/cli/site"
	"pando/internal/cli/status"
	"pando/internal/cli/store"
	"pando/internal/cli/watch"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
)

// newRoot returns the whole command tree.
func newRoot(env *cmdenv.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "pando",
		Short: "Boot fleets of machines that have no operating system of their own",
		Long: `Pando boots fleets of machines that have no operating system of their own from one image in one place.

A target is a node set: pc[001-120], pc*, @group, label=value. From left to right "," adds, "&" keeps what both have, "!" takes away
and "^" keeps what one of the two has; parentheses group: 'pc[001-120]!pc007&@lab'. Quote it, for the shell's sake.`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       cmdenv.NoSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exitcode.WithHint(exitcode.AsUsage(err), cmdenv.SimilarFlags(c, err)+"see `"+c.CommandPath()+" --help`")
	})
	f := root.PersistentFlags()
	f.StringVar(&env.Data, "data", cmdenv.DefaultData, "data directory of the server on this machine")
	f.StringVar(
		&env.Server,
		"server",
		os.Getenv("PANDO_SERVER"),
		"remote server, a host or https://host:8443 (environment: PANDO_SERVER)",
	)
	f.StringVar(
		&env.Token,
		"token",
		"",
		"token for the remote server; better in the environment (PANDO_TOKEN), where nobody else can read it",
	)
	root.AddGroup(&cobra.Group{ID: "daily", Title: "Every day:"}, &cobra.Group{ID: "noun", Title: "Things:"})
	root.AddCommand(
		serve.UpCommand(env),
		serve.Command(env),
		status.Command(env),
		watch.Command(env),
		doctor.Command(env),
		apply.PlanCommand(env),
		apply.Command(env),
		apply.ExportCommand(env),
		versionCommand(env),
	)
	root.AddCommand(
		node.Command(env, apply.ImportCommand(env), watch.NodeCommand(env)),
		group.Command(env),
		rollout.Command(env),
		group.ClassCommand(env),
		image.Command(env, store.VerifyCommand(env)),
		store.Command(env),
		boot.Command(env),
		access.TokenCommand(env),
		access.UserCommand(env),
		access.AuditCommand(env),
		site.LeaseCommand(env),
		loader.Command(env),
		key.Command(env),
		site.PolicyCommand(env),
		site.MediaCommand(env),
		config.Command(env),
		config.SecretCommand(env),
	)
	root.AddCommand(topics()...)
	checkArgs(root)
	return root
}

// checkArgs turns errors about arguments into usage errors, for a command and all below it.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var wrong *exitcode.UsageError
			if err == nil || errors.As(err, &wrong) {
				return err
			}
			return exitcode.WithHint(exitcode.AsUsage(err), "usage: "+c.UseLine())
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}
