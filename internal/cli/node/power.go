package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// powerFlags are the flags of the commands that switch nodes.
type powerFlags struct {
	stagger                time.Duration
	parallel               int
	force, network, dryRun bool
	recover                bool
}

// wakeStagger is the pause between switching on two nodes, so that their peak currents do not add up.
const wakeStagger = 2 * time.Second

func nodePower(env *cmdenv.Env) *cobra.Command {
	c := cmdenv.Noun(
		"power",
		"Switch nodes on and off",
		powerVerb(env, api.PowerOn, "on NODES", "Switch nodes on", wakeStagger, `  pando node power on @lab1
  pando node power on 'pc[001-030]' --stagger 500ms --network
  pando node power on @all --recover --dry-run`),
		powerVerb(env,
			api.PowerOff,
			"off NODES",
			"Have nodes shut down, or cut their current",
			0,
			`  pando node power off @lab1
  pando node power off pc007 --force`,
		),
		powerVerb(env,
			api.PowerCycle,
			"cycle NODES",
			"Switch nodes off and on without asking them",
			wakeStagger,
			`  pando node power cycle pc007`,
		),
		powerVerb(env,
			api.PowerStatus,
			"status [NODES]",
			"Show whether nodes have power, and how they are switched",
			0,
			`  pando node power status @lab1`,
		),
	)
	c.GroupID = ""
	c.Long = `Switch nodes on and off, by what their group or they themselves say: pando group set GROUP --power ...

One line tells how each node did. The exit status is 1 when a node could not be switched.`
	return c
}

func powerVerb(env *cmdenv.Env,
	action api.PowerAction,
	use, short string,
	stagger time.Duration,
	example string,
) *cobra.Command {
	var f powerFlags
	args := cobra.ExactArgs(1)
	if action == api.PowerStatus {
		args = cobra.MaximumNArgs(1)
	}
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: args, ValidArgsFunction: env.CompleteNodes}
	fl := c.Flags()
	fl.DurationVar(&f.stagger, "stagger", stagger, "time from one node to the next")
	fl.IntVar(&f.parallel, "parallel", 16, "nodes that are dealt with at a time")
	switch action {
	case api.PowerOff:
		fl.BoolVar(&f.force, "force", false, "cut the current; no operating system is asked")
	case api.PowerOn, api.PowerCycle:
		fl.BoolVar(
			&f.network,
			"network",
			false,
			"boot from the network this once, whatever the firmware's order says (Redfish, IPMI)",
		)
	}
	if action == api.PowerOn {
		fl.BoolVar(
			&f.recover,
			"recover",
			false,
			"after a power cut: switch on only nodes that should be on and have been "+
				"silent for 5 minutes; one that has power is switched off and on",
		)
	}
	if action == api.PowerStatus {
		env.ReadFlags(c)
	} else {
		env.WriteFlags(c, &f.dryRun)
	}
	c.RunE = env.Call(func(ctx context.Context, cl *api.Client, args []string) error {
		if f.stagger < 0 || f.parallel < 1 {
			return exitcode.Usagef(
				"--stagger %s --parallel %d: want no time or more, and one node or more",
				f.stagger,
				f.parallel,
			)
		}
		do := action
		if f.recover {
			do = api.PowerWake
		}
		return power(env, ctx, cl, cmdenv.Arg(args, 0), do, f)
	})
	return c
}

// powerLine is the result of one node.
type powerLine struct {
	api.PowerDone
	Wanted   string `json:"wanted,omitempty"`
	WantedBy string `json:"wanted_by,omitempty"`
	Error    string `json:"error,omitempty"`
}

// power requests an action for each node, several at a time, and sends the results in the order of the nodes.
func power(
	env *cmdenv.Env,
	ctx context.Context,
	c *api.Client,
	selection string,
	action api.PowerAction,
	f powerFlags,
) error {
	nodes, err := c.Power(ctx, selection)
	if err != nil {
		return err
	}
	lines := make([]powerLine, len(nodes))
	done := make([]chan struct{}, len(nodes))
	free := make(chan struct{}, f.parallel)
	var all sync.WaitGroup
	for i := range nodes {
		done[i] = make(chan struct{})
	}
	all.Go(func() {
		for i, n := range nodes {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
			}
			all.Go(func() {
				defer func() { <-free; close(done[i]) }()
				lines[i] = switchOne(
					ctx,
					c,
					n,
					api.PowerDo{Action: action, Force: f.force, Network: f.network, DryRun: f.dryRun},
				)
			})
			if i < len(nodes)-1 && !f.dryRun {
				pause(ctx, f.stagger)
			}
		}
	})
	failed := printPower(env, lines, done, action, f.dryRun)
	all.Wait()
	if env.JSON {
		err = output.JSON(env.Out, map[string][]powerLine{"nodes": lines})
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("power %s: %d of %d nodes failed", action, failed, len(nodes))
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func switchOne(ctx context.Context, c *api.Client, n api.PowerView, do api.PowerDo) powerLine {
	l := powerLine{Wanted: n.Wanted, WantedBy: n.WantedBy}
	var err error
	if l.PowerDone, err = c.SwitchNode(ctx, n.Node, do); err != nil {
		l.PowerDone = api.PowerDone{Node: n.Node, Method: n.Method, State: "unknown"}
		l.Error = strings.TrimPrefix(err.Error(), "node "+n.Node+": ")
	}
	return l
}

// printPower prints results in the order of the nodes, each as soon as it and all before it have arrived.
func printPower(
	env *cmdenv.Env,
	lines []powerLine,
	done []chan struct{},
	action api.PowerAction,
	dryRun bool,
) (failed int) {
	width := len("NODE")
	for i := range lines {
		<-done[i]
		l := lines[i]
		if l.Error != "" {
			failed++
		}
		if env.JSON {
			continue
		}
		width = max(width, len(l.Node))
		env.Printf("%-*s  %-7s  %-7s  %s\n", width, l.Node, l.Method, l.State, l.text(action, dryRun))
	}
	return failed
}

func (l powerLine) text(action api.PowerAction, dryRun bool) string {
	switch {
	case l.Error != "":
		return "failed: " + l.Error
	case action == api.PowerStatus && l.Wanted != "":
		return "should be " + l.Wanted + " (" + l.WantedBy + ")"
	case action == api.PowerStatus:
		return ""
	case l.Did == "":
		return "nothing to do"
	case dryRun:
		return "would be done: " + l.Did
	}
	return l.Did
}

// nodeReboot returns the command `node reboot`, which restarts running nodes.
func nodeReboot(env *cmdenv.Env) *cobra.Command {
	var f powerFlags
	var method string
	c := &cobra.Command{
		Use:   "reboot NODES",
		Short: "Have running nodes boot what they should run, with their firmware or without",
		Long: `Have running nodes boot what they should run.

Each is asked when it speaks next, within about a minute, and shuts down as it would for any reboot. With --method kexec it starts the kernel of its next
boot itself: no firmware, no DHCP of it, no loader. With --method soft-reboot the kernel goes on, and systemd (254 and later) goes to the next
version's root, which the node has fetched before: ssh is away for seconds. That needs the same kernel and kernel arguments; --method auto takes
it if it fits, and kexec if not (pando node diff says why). A node that cannot do what it was asked for reboots.`,
		Example: `  pando node reboot @lab1 --stagger 2s
  pando node reboot pc007 --method auto`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
	}
	fl := c.Flags()
	fl.StringVar(
		&method,
		"method",
		string(api.PowerReboot),
		"reboot: with firmware; kexec: without; soft-reboot: with the kernel that runs; auto: the shortest that fits",
	)
	fl.DurationVar(&f.stagger, "stagger", 0, "time from one node to the next")
	fl.IntVar(&f.parallel, "parallel", 64, "nodes that are dealt with at a time")
	env.WriteFlags(c, &f.dryRun)
	c.RunE = env.Call(func(ctx context.Context, cl *api.Client, args []string) error {
		action := api.PowerAction(method)
		if _, boots := action.BootMethod(); !boots || f.stagger < 0 || f.parallel < 1 {
			return exitcode.Usagef(
				"--method %s --stagger %s --parallel %d: want reboot, kexec, soft-reboot or auto, no time or "+
					"more, and one node or more",
				method,
				f.stagger,
				f.parallel,
			)
		}
		return power(env, ctx, cl, args[0], action, f)
	})
	return c
}
