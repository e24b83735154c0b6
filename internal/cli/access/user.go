package access

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/terminal"
)

// UserCommand returns the command `user`.
func UserCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun(
		"user",
		"Who logs in to the dashboard, and may do what",
		userCreate(env),
		userList(env),
		userSet(env),
		userDelete(env),
	)
}

const roleHelp = "what it may do: viewer (look), operator (change nodes, groups, images, rollouts) or admin (also " +
	"users, tokens, keys)"

func userCreate(env *cmdenv.Env) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Let somebody log in; the password is asked for, or read from standard input",
		Example: `  pando user create desk --role operator
  pando user create wall-screen < password.txt`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			password, err := newPassword(env, args[0])
			if err != nil {
				return err
			}
			u, err := c.CreateUser(ctx, api.UserCreate{Name: args[0], Role: fleet.Role(role), Password: password})
			if err != nil {
				return err
			}
			return showUser(env, u, "created")
		}),
	}
	c.Flags().StringVar(&role, "role", string(fleet.Viewer), roleHelp)
	return env.ReadFlags(c)
}

func showUser(env *cmdenv.Env, u api.User, done string) error {
	if env.JSON {
		return output.JSON(env.Out, u)
	}
	env.Printf("user %s %s: %s\n", u.Name, done, u.Role)
	return nil
}

func userList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List users",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			users, err := c.Users(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.UserList{Users: users})
			}
			t := output.NewTable(env.Out, "USER", "ROLE", "CREATED", "LAST LOGIN", "KNOWN AT")
			for _, u := range users {
				t.Row(u.Name, string(u.Role), output.Time(u.Created), output.Ago(env.Now(), u.Used), u.Issuer)
			}
			t.Flush()
			return nil
		}),
	})
}

func userSet(env *cmdenv.Env) *cobra.Command {
	var role string
	var password bool
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a user's role or password; a new password ends all sessions",
		Args:  cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			var set api.UserSet
			if role != "" {
				r := fleet.Role(role)
				set.Role = &r
			}
			if password {
				p, err := newPassword(env, args[0])
				if err != nil {
					return err
				}
				set.Password = &p
			}
			if set == (api.UserSet{}) {
				return exitcode.Usagef("nothing to change: give --role or --password")
			}
			u, err := c.SetUser(ctx, args[0], set)
			if err != nil {
				return err
			}
			return showUser(env, u, "changed")
		}),
	}
	c.Flags().StringVar(&role, "role", "", roleHelp)
	c.Flags().BoolVar(&password, "password", false, "ask for a new password, or read it from standard input")
	return env.ReadFlags(c)
}

func userDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Let somebody log in no more, and end all sessions",
		Args:  cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteUser(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("user %s deleted\n", args[0])
			return nil
		}),
	}
}

// newPassword prompts twice for a password without echo, or reads one line if standard input is no terminal.
func newPassword(env *cmdenv.Env, user string) (string, error) {
	f := terminal.Of(env.In)
	if f == nil {
		line, err := bufio.NewReader(io.LimitReader(env.In, 4096)).ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", exitcode.Usagef("no password came on standard input: type it there, or run this in a terminal")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read password: %w", err)
		}
		return line, nil
	}
	var typed [2]string
	for i, ask := range []string{"Password of " + user + ": ", "Once more: "} {
		fmt.Fprint(env.Err, ask)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(env.Err)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		typed[i] = string(b)
	}
	if typed[0] != typed[1] {
		return "", exitcode.Usagef("the two are not the same")
	}
	return typed[0], nil
}
