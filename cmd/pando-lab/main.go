package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"pando/internal/bench"
	"pando/internal/lab/alone"
	"pando/internal/lab/demo"
	"pando/internal/lab/dhcpload"
	labfault "pando/internal/lab/fault"
	"pando/internal/lab/images"
	"pando/internal/lab/rivals"
	"pando/internal/lab/storm"
	"pando/internal/lab/updates"
	"pando/internal/mount"
)

// The exit codes have the values of those of pando.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if mount.IsInside() {
		os.Exit(mount.Inside())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Usage:
  pando-lab demo [--keep] [--dir build/demo] [--recipe debian:bookworm]
  pando-lab stop [--dir build/demo]
  pando-lab alone [--runs 5] [--ways pando,disk] [--dir build/storm]; -h lists all flags
  pando-lab update [--archive ADDRESS] [--days 30] [--dir build/storm]
  pando-lab build [--tree DIR] [--runs 3] [--docker DIR] [--dir build/build]
  pando-lab dhcp [--rates 500,1500] [--systems pando,dnsmasq,kea] [--dir build/dhcp]
  pando-lab k [--data DIR,DIR] [--dir build/storm]
  pando-lab storm [--nodes 1,10,40] [--systems chunks,pack] [--rate 10mbit] [--dir build/storm]; -h lists all flags
  pando-lab storm --fault all | --guests 2 | --against DIR
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	work, err := choose(args, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	err = work(ctx)
	var left *bench.LeftError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !errors.As(err, &left):
		fmt.Fprintln(stderr, "pando-lab: interrupted; everything is cleaned up")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "pando-lab:", err)
	return exitFailed
}

// choose returns the function that carries out the arguments.
func choose(args []string, stdout, stderr io.Writer) (func(context.Context) error, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	others := bench.Others{Systems: rivals.All(), Kernel: rivals.Kernel()}
	switch name {
	case "demo", "stop":
		l, err := demo.New(name, args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		if name == "stop" {
			return func(context.Context) error { return l.Stop() }, nil
		}
		return l.Run, nil
	case "alone":
		a, err := alone.New(others, args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return a.Measure, nil
	case "update":
		u, err := updates.New(args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return u.Measure, nil
	case "build":
		b, err := images.NewBuild(args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return b.Measure, nil
	case "build-once":
		return func(ctx context.Context) error { return images.BuildOnce(ctx, args[1:], stdout, stderr) }, nil
	case "k":
		k, err := images.NewK(args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return k.Measure, nil
	case "dhcp":
		d, err := dhcpload.New(args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return d.Measure, nil
	case "bad-peer":
		return labfault.BadPeer(args[1:], stderr)
	case "storm":
		s, err := storm.New(others, args[1:], stdout, stderr)
		if err != nil {
			return nil, err
		}
		return s.Measure, nil
	}
	fmt.Fprint(stderr, usage)
	return nil, errors.New("no such command")
}
