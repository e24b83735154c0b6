package main

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
	"pando/internal/fleet"
)

func (a *app) userCommand() *cobra.Command {
	return noun(
		"user",
		"Who logs in to the dashboard, and may do what",
		a.userCreate(),
		a.userList(),
		a.userSet(),
		a.userDelete(),
	)
}

const roleHelp = "what it may do: viewer (look), operator (change nodes, groups, images, rollouts) or admin (also " +
	"users, tokens, keys)"

func (a *app) userCreate() *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Let somebody log in; the password is asked for, or read from standard input",
		Example: `  pando user create desk --role operator
  pando user create wall-screen < password.txt`,
		Args: cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			password, err := a.newPassword(args[0])
			if err != nil {
				return err
			}
			u, err := c.CreateUser(ctx, api.UserCreate{Name: args[0], Role: fleet.Role(role), Password: password})
			if err != nil {
				return err
			}
			return a.showUser(u, "created")
		}),
	}
	c.Flags().StringVar(&role, "role", string(fleet.Viewer), roleHelp)
	return a.readFlags(c)
}

func (a *app) showUser(u api.User, done string) error {
	if a.json {
		return writeJSON(a.out, u)
	}
	a.printf("user %s %s: %s\n", u.Name, done, u.Role)
	return nil
}

func (a *app) userList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list",
		Short: "List users",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			users, err := c.Users(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.UserList{Users: users})
			}
			t := newTable(a.out, "USER", "ROLE", "CREATED", "LAST LOGIN", "KNOWN AT")
			for _, u := range users {
				t.row(u.Name, string(u.Role), clock(u.Created), ago(a.now(), u.Used), u.Issuer)
			}
			t.flush()
			return nil
		}),
	})
}

func (a *app) userSet() *cobra.Command {
	var role string
	var password bool
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a user's role or password; a new password ends all sessions",
		Args:  cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			var set api.UserSet
			if role != "" {
				r := fleet.Role(role)
				set.Role = &r
			}
			if password {
				p, err := a.newPassword(args[0])
				if err != nil {
					return err
				}
				set.Password = &p
			}
			if set == (api.UserSet{}) {
				return usagef("nothing to change: give --role or --password")
			}
			u, err := c.SetUser(ctx, args[0], set)
			if err != nil {
				return err
			}
			return a.showUser(u, "changed")
		}),
	}
	c.Flags().StringVar(&role, "role", "", roleHelp)
	c.Flags().BoolVar(&password, "password", false, "ask for a new password, or read it from standard input")
	return a.readFlags(c)
}

func (a *app) userDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Let somebody log in no more, and end all sessions",
		Args:  cobra.ExactArgs(1),
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteUser(ctx, args[0]); err != nil {
				return err
			}
			a.printf("user %s deleted\n", args[0])
			return nil
		}),
	}
}

// newPassword asks for a password twice, without an echo, or reads a line where nobody can be asked.
func (a *app) newPassword(user string) (string, error) {
	f := terminal(a.in)
	if f == nil {
		line, err := bufio.NewReader(io.LimitReader(a.in, 4096)).ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", usagef("no password came on standard input: type it there, or run this in a terminal")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read password: %w", err)
		}
		return line, nil
	}
	var typed [2]string
	for i, ask := range []string{"Password of " + user + ": ", "Once more: "} {
		fmt.Fprint(a.err, ask)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.err)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		typed[i] = string(b)
	}
	if typed[0] != typed[1] {
		return "", usagef("the two are not the same")
	}
	return typed[0], nil
}
