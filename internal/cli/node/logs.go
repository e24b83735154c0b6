package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// logsFlags are the flags of `node logs` as they are typed.
type logsFlags struct {
	api.JournalQuery
	since, until string
	follow       bool
}

func nodeLogs(env *cmdenv.Env) *cobra.Command {
	var f logsFlags
	c := &cobra.Command{
		Use:   "logs NODES",
		Short: "Show the journals of nodes, also of those that are off",
		Long: `Show lines of the journals that nodes have sent to the server: of their latest boot, or another one. They are there when the node is not.
Nodes send them when the server was started with --logs on, or finds systemd-journal-remote, and their image has that package too.`,
		Example: `  pando node logs pc001 --unit ssh --follow
  pando node logs pc001 --boot -1 -n 50
  pando node logs @lab --grep 'out of memory' --since 24h`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) (err error) {
			if f.Since, err = logTime(f.since, env.Now()); err != nil {
				return err
			}
			if f.Until, err = logTime(f.until, env.Now()); err != nil {
				return err
			}
			nodes, err := c.Nodes(ctx, args[0])
			if err != nil {
				return err
			}
			if f.follow {
				if len(nodes) != 1 {
					return exitcode.Usagef("node logs: %d nodes are named: one can be followed", len(nodes))
				}
				return followLogs(env, ctx, c, nodes[0].Name, f.JournalQuery)
			}
			return showLogs(env, ctx, c, nodes, f.JournalQuery)
		}),
	}
	fl := c.Flags()
	fl.StringVar(&f.Boot, "boot", "", "a boot id, or -1 for the boot before the latest, -2 for the one before that")
	fl.StringVar(&f.Unit, "unit", "", "lines of this unit, or of those that a pattern such as 'nfs-*' matches")
	fl.StringVar(
		&f.Grep,
		"grep",
		"",
		"lines that a regular expression matches; without capitals in it, case does not count",
	)
	fl.StringVar(&f.Priority, "priority", "", "this and what is more urgent: err, warning, notice, info, debug")
	fl.StringVar(&f.since, "since", "", "then or later: a time such as '2026-11-22 08:00', or how long ago, such as 2h")
	fl.StringVar(&f.until, "until", "", "then or earlier")
	fl.IntVarP(&f.Last, "lines", "n", 200, "the newest so many of each node")
	fl.BoolVar(&f.follow, "follow", false, "go on with the lines that come")
	return env.ReadFlags(c)
}

// logTime parses a time, or a duration before now.
func logTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, exitcode.Usagef("%q is no time: write 2026-11-22 08:00, or how long ago, such as 2h", text)
}

// logsAtOnce is how many journals are read at the same time.
const logsAtOnce = 8

// showLogs prints the journals of nodes, one after the other.
func showLogs(env *cmdenv.Env, ctx context.Context, c *api.Client, nodes []api.Node, q api.JournalQuery) error {
	all, errs := make([]api.Journal, len(nodes)), make([]error, len(nodes))
	slots := make(chan struct{}, logsAtOnce)
	var wg sync.WaitGroup
	for i, n := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			all[i], errs[i] = c.NodeLogs(ctx, n.Name, q)
		})
	}
	wg.Wait()
	for i, j := range all {
		switch {
		case errs[i] != nil && (len(nodes) == 1 || !api.IsCode(errs[i], api.NotFound)):
			return errs[i]
		case errs[i] != nil:
			output.Fprintf(env.Err, "%s: %v\n", nodes[i].Name, errs[i])
		case env.JSON:
		case j.Missing != "":
			output.Fprintf(env.Err, "%s: %s\n", j.Node, j.Missing)
		default:
			for _, l := range j.Lines {
				printLogLine(env, j.Node, len(nodes) > 1, l)
			}
		}
	}
	switch {
	case env.JSON && len(nodes) == 1:
		return output.JSON(env.Out, all[0])
	case env.JSON:
		return output.JSON(env.Out, all)
	}
	return nil
}

func followLogs(env *cmdenv.Env, ctx context.Context, c *api.Client, node string, q api.JournalQuery) error {
	for l, err := range c.FollowLogs(ctx, node, q) {
		if err != nil {
			return err
		}
		if env.JSON {
			if err := output.JSON(env.Out, l); err != nil {
				return err
			}
			continue
		}
		printLogLine(env, node, false, l)
	}
	return nil
}

// printLogLine prints an entry of the journal. Lines after its first are indented.
func printLogLine(env *cmdenv.Env, node string, named bool, l api.JournalLine) {
	head := l.Time.Local().Format("Jan 02 15:04:05 ")
	if named {
		head += node + " "
	}
	for line := range strings.SplitSeq(l.String(), "\n") {
		env.Printf("%s%s\n", head, line)
		head = strings.Repeat(" ", len(head))
	}
}
