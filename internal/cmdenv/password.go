package cmdenv

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pando/internal/api"
	"pando/internal/terminal"
)

// PasswordCommand returns a command that stores the password of management controllers.
func PasswordCommand(env *Env,
	of string,
	complete cobra.CompletionFunc,
	set func(*api.Client, context.Context, string, string) error,
) *cobra.Command {
	c := &cobra.Command{
		Use:   "password " + strings.ToUpper(of),
		Short: "Keep the password of management controllers (Redfish, IPMI, SecureOn)",
		Long: `Keep the password of management controllers. It is read from standard input, a line, or asked for; an empty one takes it away.
It is kept encrypted with the site's keys and never shown again. A node's own comes before its group's.`,
		Example: `  pando ` + of + ` password ` + map[string]string{"node": "pc001",
			"group": "lab1"}[of] + ` <password.txt`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete,
	}
	c.RunE = env.Call(func(ctx context.Context, cl *api.Client, args []string) error {
		password, err := readPassword(env, of+" "+args[0])
		if err != nil {
			return err
		}
		if err := set(cl, ctx, args[0], password); err != nil {
			return err
		}
		what := "kept"
		if password == "" {
			what = "taken away"
		}
		env.Printf("%s %s: the password of its controller is %s\n", of, args[0], what)
		return nil
	})
	return c
}

func readPassword(env *Env, of string) (string, error) {
	if tty := terminal.Of(env.In); tty != nil {
		fmt.Fprintf(env.Err, "Password of the controllers of %s: ", of)
		b, err := term.ReadPassword(int(tty.Fd()))
		fmt.Fprintln(env.Err)
		return string(b), err
	}
	s := bufio.NewScanner(env.In)
	s.Scan()
	return strings.TrimRight(s.Text(), "\r"), s.Err()
}
