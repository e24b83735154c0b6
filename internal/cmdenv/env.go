package cmdenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// WriteFlags adds --dry-run and --json to a command that changes several nodes.
func (env *Env) WriteFlags(c *cobra.Command, dryRun *bool) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "print what would change and change nothing")
	c.Flags().BoolVar(&env.JSON, "json", false, "print JSON, the same fields as the HTTP API")
}

// Env is what every command shares: the streams, and the values of global flags.
type Env struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Now func() time.Time

	Release string // of this program

	Data   string // data directory
	Server string // remote server; "": the socket in Data
	Token  string
	JSON   bool
}

// DefaultData is the default data directory.
const DefaultData = "/var/lib/pando"

// NoSuchCommand refuses an unknown subcommand, and suggests known ones.
func NoSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := exitcode.Usagef("unknown command %q for %q", args[0], c.CommandPath())
	similar := c.SuggestionsFor(args[0])
	if same := otherWays(c, args[0]); len(same) > 0 {
		similar = same
	}
	if len(similar) > 0 {
		return exitcode.WithHint(err, "did you mean "+strings.Join(similar, " or ")+"?")
	}
	return exitcode.WithHint(err, "see `"+c.CommandPath()+" --help`")
}

// Noun returns a command that only has subcommands, its verbs.
func Noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, GroupID: "noun", Args: NoSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// ReadFlags adds --json to a command that only reads.
func (env *Env) ReadFlags(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&env.JSON, "json", false, "print JSON, the same fields as the HTTP API")
	return c
}

// Client returns a client of the remote server if one is named, otherwise of the server behind the local socket.
func (env *Env) Client() (*api.Client, error) {
	if env.Server == "" {
		return api.OverSocket(filepath.Join(env.Data, "pando.sock")), nil // nobody has to wait there
	}
	token := env.Token
	if token == "" {
		token = os.Getenv("PANDO_TOKEN")
	}
	if token == "" {
		return nil, exitcode.WithHint(exitcode.Usagef("server %s: no token", env.Server),
			"make one on the server with `pando token create NAME`, then set PANDO_TOKEN or pass --token")
	}
	c, err := api.OverTLS(env.Server, token)
	if err != nil {
		return nil, exitcode.AsUsage(err)
	}
	c.Patient(sync.OnceFunc(func() { fmt.Fprintln(env.Err, "too many requests: waiting as the server asks") }))
	return c, nil
}

// Call returns the RunE function of a command that calls the server.
func (env *Env) Call(
	do func(ctx context.Context, c *api.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := env.Client()
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// Arg returns the i-th argument, "" if it was not given.
func Arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// Printf writes to the standard output. A text among args cannot add lines or steer the terminal.
func (env *Env) Printf(format string, args ...any) { output.Fprintf(env.Out, format, args...) }

// SocketPath returns the path of the socket on which the server of a data directory serves operators.
func SocketPath(data string) string { return filepath.Join(data, "pando.sock") }

// ReadFile reads the file that the flag -f names; "-" is standard input.
func (env *Env) ReadFile(name string) ([]byte, error) {
	if name == "" {
		return nil, exitcode.WithHint(exitcode.Usagef("no file is named"), "name it with -f FILE; `pando export` "+
			"writes one")
	}
	if name == "-" {
		return io.ReadAll(env.In)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, exitcode.AsUsage(err)
	}
	return b, nil
}
