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

// WriteFlags gives a command that changes several nodes its --dry-run, and --json for what it did.
func (env *Env) WriteFlags(c *cobra.Command, dryRun *bool) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "print what would change and change nothing")
	c.Flags().BoolVar(&env.JSON, "json", false, "print JSON, the same fields as the HTTP API")
}

// Env is what every command shares: the streams, and the flags that every command has.
type Env struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Now func() time.Time

	Release string // of this program

	Data   string // data directory
	Server string // remote server; "": the socket in data
	Token  string
	JSON   bool
}

// DefaultData is the data directory where none is named.
const DefaultData = "/var/lib/pando"

// NoSuchCommand refuses arguments of a command that only has commands below it.
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

// Noun is a command that holds verbs.
func Noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, GroupID: "noun", Args: NoSuchCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// ReadFlags gives a command that reads its --json.
func (env *Env) ReadFlags(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&env.JSON, "json", false, "print JSON, the same fields as the HTTP API")
	return c
}

// Client is the way to the server: remote where one is named, the socket otherwise.
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

// Call makes the RunE of a command that talks to the server.
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

// Arg is the i-th argument, "" where it was left out.
func Arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// Printf writes to the standard output. Each text among args stays on one line.
func (env *Env) Printf(format string, args ...any) { output.Fprintf(env.Out, format, args...) }

// SocketPath is where the server on this machine listens for operators.
func SocketPath(data string) string { return filepath.Join(data, "pando.sock") }

// ReadFile reads the file that a flag -f names; "-" is standard input.
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
