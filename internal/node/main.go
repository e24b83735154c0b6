package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"pando/internal/blockapi"
	"pando/internal/ext4"
	"pando/internal/kmod"
	"pando/internal/node/agent"
	"pando/internal/node/blockd"
	"pando/internal/node/courier"
	"pando/internal/node/extend"
	"pando/internal/node/initrd"
	"pando/internal/node/lease"
	"pando/internal/node/loginfiles"
	"pando/internal/node/medium"
	"pando/internal/node/rootwatch"
	"pando/internal/node/units"
	"pando/internal/node/volume"
	"pando/internal/node/writelayer"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// AgentName is the process name of the agent.
const AgentName = "pando-agent"

// usage is printed to a person who runs the program.
const usage = `pando-init is Pando's program on a node; the node starts it by itself.
  pando-init mark NAME    put a moment of this boot on its timeline
  pando-init version      print the release
`

// Main runs the role that argv[0] names, and returns the exit status: 0, 1 if the work failed, 2 for invalid
// arguments. The role init does not return.
func Main(args []string, release string, stdout, stderr io.Writer) int {
	switch filepath.Base(args[0]) {
	case blockapi.SupervisorName:
		return blockd.RunSupervisor()
	case blockapi.DaemonName:
		return blockd.Run()
	case AgentName:
		return runAgent(release, stderr)
	case volume.Name:
		return volume.Run(args[1:])
	case "modprobe":
		return kmod.Modprobe(args[1:], stderr)
	}
	if os.Getpid() == 1 {
		return initrd.Run(release, parts())
	}
	return runCommand(args[1:], release, stdout, stderr)
}

func runCommand(args []string, release string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Fprintln(stdout, release)
		return 0
	case len(args) == 2 && args[0] == "mark":
		if err := rundir.Mark(rundir.Dir, args[1]); err != nil {
			fmt.Fprintln(stderr, "pando-init:", err)
			return 1
		}
		return 0
	case len(args) == 3 && args[0] == "ext4":
		if err := writelayer.Make(args[1], ext4.Options{Label: args[2], Journal: true}); err != nil {
			fmt.Fprintf(stderr, "pando-init: make ext4 on %s: %v\n", args[1], err)
			return 1
		}
		return 0
	case len(args) == 3 && args[0] == "state-send", len(args) == 4 && args[0] == "state-fetch":
		return courier.Run(rundir.Dir, args, stderr)
	case len(args) == 2 && args[0] == "own-nic":
		return units.OwnNIC(rundir.Dir, args[1], stderr)
	case len(args) == 1 && args[0] == "ifupdown-env":
		return units.IfupdownEnv(rundir.Dir, stderr)
	}
	fmt.Fprint(stderr, usage)
	return 2
}

// runAgent runs the role of pando-agent.service until a signal ends it, and returns the exit status.
func runAgent(release string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	a, err := agent.New(rundir.Dir, release, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "pando-agent:", err)
		return 1
	}
	self := a.Self()
	fmt.Fprintf(stderr, "pando-agent %s: node %s, boot %s\n", release, self.Node, self.Boot)
	extensions := extend.New(rundir.Dir, a.Control(), a, stderr)
	next := initrd.NewNextBoot(rundir.Dir, release, a.Control(), a, parts(), stderr)
	a.Use(agent.Parts{
		Extensions: extensions,
		Next:       next,
		Medium:     medium.New(a.Control(), a.Self, a.Wake, stderr),
		Login:      func(ctx context.Context) { loginfiles.Run(ctx, a.Block(), self.Device, stderr) },
		Beside:     []func(context.Context){next.Retire, extensions.Retire},
	})
	go rootwatch.New(a.Self().Device, a.Block(), a.RootLost, a.Leaving).Run(ctx)
	go (&lease.Renewer{Dir: rundir.Dir, Network: a.Block(), Info: a.Info, Log: stderr}).Run(ctx)
	a.Run(ctx)
	return 0
}

// parts returns the implementations that a boot uses from other packages.
func parts() initrd.Parts {
	return initrd.Parts{
		RunFiles: units.Files,
		Writable: func(
			lower, upper, root string,
			findDisk func(context.Context, func() string) (string, error),
			tell func(trace.Event),
		) initrd.Writable {
			return &writelayer.Layer{Lower: lower, Upper: upper, Root: root, FindDisk: findDisk, Tell: tell}
		},
	}
}
