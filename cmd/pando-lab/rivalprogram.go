package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/testkit"
)

// program is a program of a rival that runs.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProgram starts it and waits until ready says yes. What it says goes into a file.
func startProgram(ctx context.Context, c *exec.Cmd, log string, ready func() bool) (*program, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if c.Stdout == nil {
		c.Stdout = f
	}
	c.Stderr = f
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &program{c, make(chan struct{})}
	go func() {
		_ = c.Wait() // how it ended stands in its log
		close(p.done)
	}()
	return p, p.wait(ctx, log, ready)
}

// wait stops the program when it does not come up.
func (p *program) wait(ctx context.Context, log string, ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			p.stop()
			return fmt.Errorf("%s ended at once; its log is %s", p.cmd.Args[0], log)
		case <-ctx.Done():
			p.stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// startMount starts a program that mounts something, on a node, with this program's view of mounts.
func startMount(ctx context.Context, n *testkit.Net, log string, ready func() bool, name string, args ...string) (p *program, err error) {
	err = n.Do(func() (err error) {
		c := exec.Command(name, args...)
		c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		p, err = startProgram(ctx, c, log, ready)
		return err
	})
	return p, err
}

// endTimeout is how long a program may take to end by itself.
const endTimeout = 3 * time.Second

// stop asks the program to end, and then ends it and what it has started: they are a session.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	kill := time.AfterFunc(endTimeout, func() { _ = p.cmd.Process.Kill() })
	<-p.done
	kill.Stop()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
}

// cost is the processor time and memory of a few programs.
func cost(programs ...*program) (t taken, err error) {
	for _, p := range programs {
		cpu, memory, err := processCost(p.cmd.Process.Pid)
		if err != nil {
			return t, err
		}
		t.CPU, t.Memory = t.CPU+cpu, t.Memory+memory
	}
	return t, nil
}
