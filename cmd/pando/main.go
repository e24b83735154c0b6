package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"pando/internal/cli"
	"pando/internal/mount"
)

func main() {
	if mount.IsInside() {
		os.Exit(mount.Inside())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, release, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// release is set by the linker: -X main.release=...
var release = "dev"
