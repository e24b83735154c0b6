package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"pando/internal/bench"
	"pando/internal/testkit"
	"path/filepath"
)

// system is one way to get a root file system to a node.
type system struct {
	name     string
	what     string
	programs []string // of others, that it needs
	helper   string   // program of the lab that it needs; "": none
	most     int      // nodes that it is measured with; 0: any number
	cost     float64  // processor time of both ends to bring W to a node, in seconds: for choosing a rate, and generous
	shared   bool     // nodes give each other what they have
	segment  int      // data in the longest frame, in bytes; 0: stamped
	// serve starts what the server needs beside `pando serve`; nil: nothing.
	serve func(ctx context.Context, h host, m *labImage) (server, error)
	// attach makes a root that can be read, on one node. What it took is in the root.
	attach func(ctx context.Context, n client) (bench.Root, error)
}

// host is where the servers of systems run.
type host struct {
	net *testkit.Net
	dir string // for their files
}

// server is what a system needs beside `pando serve`, while it runs. The zero value is nothing.
type server struct {
	pid int // of the process whose session is counted; 0: `pando serve`
	end func()
}

// client is a node as a system sees it.
type client struct {
	net *testkit.Net
	dir string // of its own
	bin string // the lab's programs
	m   *labImage
}

// check says what a system lacks on this machine. bin is where this program and its helpers are.
func (s system) check(bin string) error {
	if s.helper != "" {
		if _, err := os.Stat(filepath.Join(bin, s.helper)); err != nil {
			return fmt.Errorf("%s: %w (make bench-storm makes it)", s.name, err)
		}
	}
	for _, p := range s.programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s: %w (scripts/install-packages rivals)", s.name, err)
		}
	}
	return nil
}

// kernelRival is a way to a root by drivers of the node's own kernel, which a lab whose kernel lacks these drivers can
// only show in a machine.
type kernelRival struct {
	name, what string
	// start makes ready what the machines boot from, and says how one starts. Call stop when they are done.
	start func(ctx context.Context, h host, m *labImage, kernelArgs []string) (d testkit.Direct, stop func(), err error)
	// booted waits for the default target of a machine, and returns the seconds since /init.
	booted func(ctx context.Context, g *testkit.Machine) (float64, error)
}
