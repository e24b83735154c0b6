package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
)

// app is what every command shares: the streams, and the flags that every command has.
type app struct {
	in    io.Reader
	out   io.Writer
	err   io.Writer
	clock func() time.Time

	data   string // data directory
	server string // remote server; "": the socket in data
	token  string
	json   bool
}

const defaultData = "/var/lib/pando"

// newRoot is the whole command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "pando",
		Short: "Boot fleets of machines that have no operating system of their own",
		Long: `Pando boots fleets of machines that have no operating system of their own from one image in one place.

A target is a node set: pc[001-120], pc*, @group, label=value. From left to right "," adds, "&" keeps what both have, "!" takes away
and "^" keeps what one of the two has; parentheses group: 'pc[001-120]!pc007&@lab'. Quote it, for the shell's sake.`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       noSuchCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return withHint(&usageError{err}, "see `"+c.CommandPath()+" --help`")
	})
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", defaultData, "data directory of the server on this machine")
	f.StringVar(
		&a.server,
		"server",
		os.Getenv("PANDO_SERVER"),
		"remote server, a host or https://host:8443 (environment: PANDO_SERVER)",
	)
	f.StringVar(
		&a.token,
		"token",
		"",
		"token for the remote server; better in the environment (PANDO_TOKEN), where nobody else can read it",
	)
	root.AddGroup(&cobra.Group{ID: "daily", Title: "Every day:"}, &cobra.Group{ID: "noun", Title: "Things:"})
	root.AddCommand(
		a.upCommand(),
		a.serveCommand(),
		a.statusCommand(),
		a.watchCommand(),
		a.doctorCommand(),
		a.planCommand(),
		a.applyCommand(),
		a.exportCommand(),
		a.versionCommand(),
	)
	root.AddCommand(
		a.nodeCommand(),
		a.groupCommand(),
		a.rolloutCommand(),
		a.classCommand(),
		a.imageCommand(),
		a.storeCommand(),
		a.bootCommand(),
		a.tokenCommand(),
		a.userCommand(),
		a.auditCommand(),
		a.leaseCommand(),
		a.keyCommand(),
		a.policyCommand(),
		a.mediaCommand(),
		a.configCommand(),
		a.secretCommand(),
	)
	checkArgs(root)
	return root
}

// checkArgs makes wrong arguments usage errors, in all commands.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var usage *usageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return withHint(&usageError{err}, "usage: "+c.UseLine())
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}

// noSuchCommand refuses arguments of a command that only has commands below it.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usagef("unknown command %q for %q", args[0], c.CommandPath())
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return withHint(err, "did you mean "+strings.Join(near, " or ")+"?")
	}
	return withHint(err, "see `"+c.CommandPath()+" --help`")
}

// noun is a command that holds verbs.
func noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, GroupID: "noun", Args: noSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// readFlags gives a command that reads its --json.
func (a *app) readFlags(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON, the same fields as the HTTP API")
	return c
}

// client is the way to the server: remote where one is named, the socket otherwise.
func (a *app) client() (*api.Client, error) {
	if a.server == "" {
		return api.OverSocket(filepath.Join(a.data, "pando.sock")), nil // nobody has to wait there
	}
	token := a.token
	if token == "" {
		token = os.Getenv("PANDO_TOKEN")
	}
	if token == "" {
		return nil, withHint(usagef("server %s: no token", a.server),
			"make one on the server with `pando token create NAME`, then set PANDO_TOKEN or pass --token")
	}
	c, err := api.OverTLS(a.server, token)
	if err != nil {
		return nil, &usageError{err}
	}
	c.Patient(sync.OnceFunc(func() { fmt.Fprintln(a.err, "too many requests: waiting as the server asks") }))
	return c, nil
}

// call makes the RunE of a command that talks to the server.
func (a *app) call(
	do func(ctx context.Context, c *api.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// arg is the i-th argument, "" where it was left out.
func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }
