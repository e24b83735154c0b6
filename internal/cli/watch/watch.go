package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/terminal"
	"pando/internal/trace"
)

// Command returns the command `watch`.
func Command(env *cmdenv.Env) *cobra.Command {
	var lines bool
	var from int64
	var until time.Duration
	c := &cobra.Command{
		Use:   "watch [NODES]",
		Short: "Watch nodes boot: a live table, or a line per event",
		Long: `Watch nodes boot. On a terminal it is a table that is drawn in place, with each node's stage, its
time and the bytes it received by source. Otherwise, on a dumb terminal, or with --lines, it is one line per event; with --json
one JSON object per line. Arrows, page keys, Home and End (or j, k, space, b, g, G) turn to other nodes of the table, q ends it.`,
		GroupID:           "daily",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
	}
	c.RunE = env.Call(func(ctx context.Context, c *api.Client, args []string) error {
		if until > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, until)
			defer cancel()
		}
		err := watch(env, ctx, c, cmdenv.Arg(args, 0), lines, from)
		if until > 0 && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	c.Flags().
		Int64Var(&from, "from", 0, "begin after the event with this number, a line for each (default: from now on)")
	c.Flags().BoolVar(&lines, "lines", false, "one line per event, also on a terminal")
	c.Flags().DurationVar(&until, "for", 0, "stop after this long, such as 30s; 0: when interrupted")
	return env.ReadFlags(c)
}

func watch(env *cmdenv.Env, ctx context.Context, c *api.Client, selection string, lines bool, from int64) error {
	if tty := terminal.Screen(env.Out); tty != nil && !lines && !env.JSON && from == 0 {
		return drawTable(env, ctx, c, selection, tty)
	}
	return watchLines(env, ctx, c, selection, from)
}

// watchLines prints events after a sequence number; 0: only new events.
func watchLines(env *cmdenv.Env, ctx context.Context, c *api.Client, selection string, from int64) error {
	wanted, err := watched(ctx, c, selection)
	if err != nil {
		return err
	}
	if from == 0 {
		last, err := c.Events(ctx, -1, 1)
		if err != nil {
			return err
		}
		from = last.Last
	}
	for e, err := range c.Follow(ctx, from) {
		if err != nil {
			return err
		}
		if wanted != nil && !wanted[e.Node] {
			continue
		}
		if err := printEvent(env, e); err != nil {
			return err
		}
	}
	return nil
}

// watched returns the names of the selected nodes. nil means all nodes, including those that are added later.
func watched(ctx context.Context, c *api.Client, selection string) (map[string]bool, error) {
	if selection == "" {
		return nil, nil
	}
	nodes, err := c.Nodes(ctx, selection)
	set := map[string]bool{}
	for _, n := range nodes {
		set[n.Name] = true
	}
	return set, err
}

func printEvent(env *cmdenv.Env, e trace.Event) error {
	if env.JSON {
		return output.JSONLine(env.Out, e)
	}
	who := e.Node
	if e.Stage == trace.Rollout && who == "" {
		who = "@" + e.Attrs["group"]
	}
	switch {
	case who == "" && e.MAC.IsZero():
		who = "server"
	case who == "":
		who = e.MAC.String()
	}
	return output.Fprintf(env.Out, "%s %-17s %s\n", e.Time.Local().Format("15:04:05.000"), who, listing.EventText(e))
}

// drawTable draws the table until ctx ends. It always restores the cursor of the terminal. If the server stops
// answering, it waits for the server.
func drawTable(env *cmdenv.Env, ctx context.Context, c *api.Client, selection string, tty *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes, err := c.Nodes(ctx, selection)
	if err != nil {
		return err
	}
	fmt.Fprint(tty, terminal.HideCursor+terminal.ClearScreen)
	defer fmt.Fprint(tty, terminal.ShowCursor)
	in, _ := env.In.(*os.File)
	keys, restore := tableKeys(terminal.Of(in))
	defer restore()
	t := watchTable{
		changed: make(chan struct{}, 1),
		keys:    keys,
		sized:   make(chan os.Signal, 1),
		view:    watchView{nodes: nodes, read: env.Now(), keys: keys != nil},
	}
	signal.Notify(t.sized, unix.SIGWINCH)
	defer signal.Stop(t.sized)
	tick := time.NewTicker(terminal.DrawEvery)
	defer tick.Stop()
	for {
		if t.ended == nil {
			t.follow(ctx, c)
		}
		t.view.now = env.Now()
		width, height := terminal.Size(tty)
		fmt.Fprint(tty, terminal.CursorHome+t.view.render(width, height)+terminal.ClearBelow)
		if err := t.wait(ctx, tick.C, height); errors.Is(err, errQuit) {
			return nil
		} else if err != nil {
			return err
		}
		if !t.due(env.Now()) {
			continue
		}
		began := env.Now()
		nodes, err := c.Nodes(ctx, selection)
		if t.view.lost, err = lost(err); err != nil {
			return err
		}
		if t.view.lost == nil {
			t.view.nodes, t.view.read, t.stale = nodes, env.Now(), false
			t.took = t.view.read.Sub(began)
		}
	}
}

// watchTable is a live table, and the event stream that updates it.
type watchTable struct {
	view    watchView
	stale   bool          // an event came after the nodes were read
	took    time.Duration // duration of the last reading of the nodes
	changed chan struct{} // an event came
	ended   chan error    // the event stream ended; nil: there is no stream
	keys    <-chan watchKey
	sized   chan os.Signal // the size of the terminal changed
}

// due reports whether it is time to read the nodes again.
func (t *watchTable) due(now time.Time) bool {
	if t.view.lost != nil {
		return true
	}
	since := now.Sub(t.view.read)
	return since >= t.took*readPart && (t.stale || since >= readEvery)
}

// follow starts the event stream. An event only marks the table as stale, and the next tick reads the nodes again,
// because a boot storm has thousands of events a second.
func (t *watchTable) follow(ctx context.Context, c *api.Client) {
	ended := make(chan error, 1)
	t.ended = ended
	go func() { ended <- follow(ctx, c, t.changed) }()
}

// wait returns when the table has to be drawn: at the next tick, after a key, or when the window size changed. An error
// ends the table.
func (t *watchTable) wait(ctx context.Context, tick <-chan time.Time, height int) (err error) {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-t.ended:
			t.ended = nil
			if t.view.lost, err = lost(err); err != nil {
				return err
			}
		case <-t.changed:
			t.stale = true
		case k := <-t.keys:
			if k == quitKey {
				return errQuit
			}
			t.view.move(k, height)
			return nil
		case <-t.sized:
			return nil
		case <-tick:
			return nil
		}
	}
}

// lost separates an unreachable server, which may come back, from other errors.
func lost(err error) (gone *api.UnreachableError, other error) {
	if errors.As(err, &gone) {
		return gone, nil
	}
	return nil, err
}

// follow signals changed for new events; their content does not matter.
func follow(ctx context.Context, c *api.Client, changed chan<- struct{}) error {
	last, err := c.Events(ctx, -1, 1)
	if err != nil {
		return err
	}
	for _, err := range c.Follow(ctx, last.Last) {
		if err != nil {
			return err
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// elapsed returns the duration of a boot; for an unfinished boot the duration until now.
func elapsed(b *api.Boot, now time.Time) time.Duration {
	if b.State == trace.Booting || b.State == trace.Failed {
		return max(b.Elapsed, now.Sub(b.Started))
	}
	return b.Elapsed
}

// adopted reports whether a node is adopted. Other nodes boot no image.
func adopted(n api.Node) bool { return n.State == fleet.Adopted }

// How often all nodes are read, because events may be missed. Reading thousands of nodes is work for the server, so the
// program spends only a fraction 1/readPart of its time on it.
const (
	readEvery = 10 * time.Second
	readPart  = 10 // readPart-th part of the time
)

// NodeCommand returns the command `node watch`, which is `watch` as a verb of `node`.
func NodeCommand(env *cmdenv.Env) *cobra.Command {
	c := Command(env)
	c.GroupID = ""
	return c
}
