package config

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/terminal"
)

// Command returns the command `config`.
func Command(env *cmdenv.Env) *cobra.Command {
	c := cmdenv.Noun("config", "Config files, made on the server for each node",
		configList(env), configShow(env), configSet(env), configDelete(env), configRender(env))
	c.Long = `A config file is for all nodes, a group, a hardware class, or one node: all, group:NAME (or @NAME), class:NAME, node:NAME. A node's own
file wins over one of its classes, that over its group's. It is a Go template, in which {{.Name}}, {{.IP}}, {{.Labels.rack}} and others
stand for what the node has (docs/config.md lists them), unless it is set with --verbatim. Nodes have their files before their init
starts; 'pando node sync' brings running ones up to date.`
	return c
}

func configList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List config files, with how many nodes get each",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			files, err := c.ConfigFiles(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.ConfigList{Files: files})
			}
			t := output.NewTable(env.Out, "PATH", "FOR", "NODES", "MODE", "OWNER", "SIZE", "RUN")
			for _, f := range files {
				t.Row(
					f.Path,
					f.For.String(),
					strconv.Itoa(len(f.Nodes)),
					modeText(f.Mode),
					f.Owner,
					output.Size(int64(f.Size)),
					f.Run,
				)
			}
			t.Flush()
			return nil
		}),
	})
}

// modeText returns permission bits in the format of chmod, "" for the default.
func modeText(mode uint32) string {
	if mode == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", mode)
}

func configShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "show FOR PATH",
		Short: "Print a config file as it was set",
		Args:  cobra.ExactArgs(2),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			of, err := fleet.ParseScope(args[0])
			if err != nil {
				return exitcode.AsUsage(err)
			}
			f, err := c.ConfigFile(ctx, of, args[1])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, f)
			}
			_, err = terminal.Content(env.Out).Write(f.Content)
			return err
		}),
	})
}

// configFlags are the flags of `config set`.
type configFlags struct {
	from, mode, owner, run string
	verbatim, dryRun       bool
}

func configSet(env *cmdenv.Env) *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use:   "set FOR PATH --from FILE",
		Short: "Give nodes a config file; they have it from their next boot, or `node sync`, on",
		Example: `  pando config set @lab /etc/motd --from motd.tmpl
  pando config set class:nvidia /etc/X11/xorg.conf.d/10-card.conf --from card.conf --verbatim
  pando config set @lab /etc/chrony/chrony.conf --from chrony.tmpl --run 'systemctl restart chrony'
  pando config set node:pc001 /etc/slurm/gres.conf --from gres.conf --owner slurm:slurm --mode 0640`,
		Args: cobra.ExactArgs(2),
		RunE: env.Call(
			func(ctx context.Context, c *api.Client, args []string) error {
				return runConfigSet(env, ctx, c, args, f)
			},
		),
	}
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "", "file with the content, a template; -: standard input")
	fl.BoolVar(&f.verbatim, "verbatim", false, "the content is no template: nodes get it as it is")
	fl.StringVar(&f.mode, "mode", "", "permission bits, such as 0640 (default: 0644, or 0600 with a secret in it)")
	fl.StringVar(&f.owner, "owner", "", "USER or USER:GROUP, names of the image or numbers (default: root)")
	fl.StringVar(&f.run, "run", "", "command for a running node's shell after the file has changed there")
	env.WriteFlags(c, &f.dryRun)
	return c
}

func runConfigSet(env *cmdenv.Env, ctx context.Context, c *api.Client, args []string, f configFlags) error {
	of, err := fleet.ParseScope(args[0])
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if f.from == "" {
		return exitcode.WithHint(exitcode.Usagef("no content is named"), "name a file with --from FILE")
	}
	content, err := env.ReadFile(f.from)
	if err != nil {
		return err
	}
	req := api.ConfigSet{
		DryRun: f.dryRun,
		ConfigFile: fleet.ConfigFile{For: of, Path: args[1], Content: content, Verbatim: f.verbatim,
			Owner: f.owner, Run: f.run},
	}
	if f.mode != "" {
		mode, err := strconv.ParseUint(f.mode, 8, 32)
		if err != nil || fs.FileMode(mode) > 0o7777 {
			return exitcode.Usagef("mode %q: use octal digits such as 0640", f.mode)
		}
		req.Mode = uint32(mode)
	}
	ch, err := c.SetConfigFile(ctx, req)
	if err != nil {
		return err
	}
	return printConfigChange(env, "config file "+args[1]+" of "+of.String(), ch)
}

func printConfigChange(env *cmdenv.Env, what string, ch api.ConfigChange) error {
	if env.JSON {
		return output.JSON(env.Out, ch)
	}
	cmdenv.PrintChange(env, what, ch.Fields, ch.DryRun, len(ch.Nodes))
	for _, p := range output.Counted(ch.Problems) {
		output.Fprintf(env.Err, "warning: %s\n", p)
	}
	return nil
}

func configDelete(env *cmdenv.Env) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "delete FOR PATH",
		Short: "Take a config file away; running nodes have it until they reboot",
		Args:  cobra.ExactArgs(2),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			of, err := fleet.ParseScope(args[0])
			if err != nil {
				return exitcode.AsUsage(err)
			}
			ch, err := c.DeleteConfigFile(ctx, api.ConfigDelete{For: of, Path: args[1], DryRun: dryRun})
			if err != nil {
				return err
			}
			return printConfigChange(env, "config file "+args[1]+" of "+of.String(), ch)
		}),
	}
	env.WriteFlags(c, &dryRun)
	return c
}

func configRender(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "render NODE [PATH]",
		Short: "Show the config files that a node gets, or one of them as it gets it",
		Example: `  pando config render pc001
  pando config render pc001 /etc/motd`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			n, err := c.NodeConfig(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON && len(args) == 1 {
				return output.JSON(env.Out, n)
			}
			if len(args) == 1 {
				printNodeConfig(env, n)
				return nil
			}
			return printRendered(env, n, args[1])
		}),
	})
}

func printNodeConfig(env *cmdenv.Env, n api.NodeConfig) {
	t := output.NewTable(env.Out, "PATH", "FROM", "MODE", "OWNER", "SIZE", "SECRETS", "RUN")
	for _, f := range n.Files {
		t.Row(
			f.Path,
			f.From,
			modeText(f.Mode),
			f.Owner,
			output.Size(int64(len(f.Content))),
			strings.Join(f.Secrets, ", "),
			f.Run,
		)
	}
	t.Flush()
	for _, p := range n.Problems {
		output.Fprintf(env.Err, "warning: without %s\n", p)
	}
}

func printRendered(env *cmdenv.Env, n api.NodeConfig, path string) error {
	for _, f := range n.Files {
		if f.Path != path {
			continue
		}
		if env.JSON {
			return output.JSON(env.Out, f)
		}
		_, err := terminal.Content(env.Out).Write(f.Content)
		return err
	}
	for _, p := range n.Problems {
		if strings.HasPrefix(p, "config file "+path+" of ") {
			return fmt.Errorf("node %s gets no %s: %s", n.Node, path, p)
		}
	}
	return &api.Error{Code: api.NotFound, Message: fmt.Sprintf("node %s gets no config file %s", n.Node, path),
		Hint: "`pando config render " + n.Node + "` lists those that it gets"}
}
