package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"pando/internal/testkit"
)

// System is one way to get a root file system to a node.
type System struct {
	Name     string
	What     string
	Programs []string // programs of others that it needs
	Helper   string   // program of the lab that it needs; "": none
	Most     int      // largest number of nodes that it is measured with; 0: any
	Cost     float64  // processor seconds of both ends per node and W; a high estimate, for choosing rates
	Shared   bool     // nodes send each other what they have
	Segment  int      // data in the longest frame, in bytes; 0: stamped
	// Serve starts what the server needs beside `pando serve`, or is nil.
	Serve func(ctx context.Context, h Host, m *Image) (Served, error)
	// Attach attaches a readable root on one node. The root counts the node's usage.
	Attach func(ctx context.Context, n Client) (Root, error)
}

// Host is where a system's servers run.
type Host struct {
	Net *testkit.Net
	Dir string // for the servers' files
}

// Served is what a system runs beside `pando serve`. The zero value means nothing.
type Served struct {
	PID int // process whose session is measured; 0: `pando serve`
	End func()
}

// Client is a node as a system sees it.
type Client struct {
	Net   *testkit.Net
	Dir   string // the node's own directory
	Bin   string // directory of the lab's programs
	Image *Image
}

// Check returns what a system lacks on this machine. bin is the directory of this program and its helpers.
func (s System) Check(bin string) error {
	if s.Helper != "" {
		if _, err := os.Stat(filepath.Join(bin, s.Helper)); err != nil {
			return fmt.Errorf("%s: %w (make bench-storm makes it)", s.Name, err)
		}
	}
	for _, p := range s.Programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s: %w (scripts/install-packages rivals)", s.Name, err)
		}
	}
	return nil
}

// KernelRival boots a root by drivers of the node's own kernel. It runs in an emulated machine, because the lab's
// kernel may lack these drivers.
type KernelRival struct {
	Name, What string
	// Start prepares what the machines boot from, and returns how to start a machine. The caller must call stop
	// afterwards.
	Start func(ctx context.Context, h Host, m *Image, kernelArgs []string) (d testkit.Direct, stop func(), err error)
	// Booted waits for a machine's default target and returns the seconds since /init.
	Booted func(ctx context.Context, g *testkit.Machine) (float64, error)
}

// Others are the ways that are compared with Pando's.
type Others struct {
	Systems []System
	Kernel  []KernelRival // for emulated machines
}

// Start starts a program beside the server and waits until it listens.
func (h Host) Start(ctx context.Context, c *exec.Cmd, name string, port int) (Served, error) {
	p, err := StartProgram(
		ctx,
		c,
		filepath.Join(h.Dir, name+".out"),
		func() bool { return answers(ctx, h.Net, port) },
	)
	if err != nil {
		return Served{}, err
	}
	return Served{p.Cmd.Process.Pid, p.Stop}, nil
}

// answers reports whether a program listens on a port of the server.
func answers(ctx context.Context, from *testkit.Net, port int) bool {
	conn, err := from.Dial(ctx, "tcp", net.JoinHostPort(Network.Addr().String(), strconv.Itoa(port)))
	if err == nil {
		conn.Close()
	}
	return err == nil
}
