package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/testkit"
)

// Program is a running program of another system.
type Program struct {
	Cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // result, valid when done is closed
}

// StartProgram starts a program and waits until ready returns true. Its output goes into the file log.
func StartProgram(ctx context.Context, c *exec.Cmd, log string, ready func() bool) (*Program, error) {
	return startOn(ctx, onThread, c, log, ready)
}

// StartMount starts a program on a node that mounts something in this process's mount namespace.
func StartMount(
	ctx context.Context,
	n *testkit.Net,
	log string,
	ready func() bool,
	name string,
	args ...string,
) (*Program, error) {
	c := exec.Command(name, args...)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return startOn(ctx, n.Do, c, log, ready)
}

// onThread calls f on a thread that does nothing else until f returns.
func onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}

// startOn starts a program on a thread that lives until the program ends. nbdkit asks Linux for SIGTERM when its parent
// ends. Linux takes the thread for the parent, and a thread that was in a namespace (testkit.Net.Do) may end at any
// time.
func startOn(
	ctx context.Context,
	thread func(f func() error) error,
	c *exec.Cmd,
	log string,
	ready func() bool,
) (*Program, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if c.Stdout == nil {
		c.Stdout = f
	}
	c.Stderr = f
	p, started := &Program{Cmd: c, log: log, done: make(chan struct{})}, make(chan error)
	go func() {
		err := thread(func() error {
			if err := c.Start(); err != nil {
				return err
			}
			started <- nil
			p.err = c.Wait()
			close(p.done)
			return nil
		})
		if err != nil { // it did not start
			started <- err
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", programName(c), err)
	}
	return p, p.wait(ctx, ready)
}

// wait waits until ready returns true. If that takes too long or the program ends, it stops the program and returns an
// error.
func (p *Program) wait(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			p.Stop()
			return p.ended()
		case <-ctx.Done():
			p.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// endTimeout is how long a program may take to end after SIGTERM.
const endTimeout = 3 * time.Second

// Stop ends the program's session: by SIGTERM, then by SIGKILL.
func (p *Program) Stop() {
	_ = p.Cmd.Process.Signal(unix.SIGTERM) // it may have ended
	kill := time.AfterFunc(endTimeout, func() { _ = p.Cmd.Process.Kill() })
	<-p.done
	kill.Stop()
	_ = unix.Kill(-p.Cmd.Process.Pid, unix.SIGKILL)
}

// UsageOf adds up the processor time and memory of programs.
func UsageOf(programs ...*Program) (t Usage, err error) {
	for _, p := range programs {
		cpu, memory, err := ProcessCost(p.Cmd.Process.Pid)
		if err != nil {
			return t, err
		}
		t.CPU, t.Memory = t.CPU+cpu, t.Memory+memory
	}
	return t, nil
}

// programName returns a program's name for people. A program in a namespace is started by `ip netns exec NAME`.
func programName(c *exec.Cmd) string {
	args := c.Args
	if len(args) > 4 && args[0] == "ip" && args[1] == "netns" && args[2] == "exec" {
		args = args[4:]
	}
	return filepath.Base(args[0])
}

// ended returns the error of a program that ended early, with the end of its output. It may be called after done is
// closed.
func (p *Program) ended() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	last := "which is empty"
	if line := lastLine(p.log); line != "" {
		last = "which ends with: " + line
	}
	return fmt.Errorf("%s ended at once (%s); its log is %s, %s", programName(p.Cmd), how, p.log, last)
}

// lastLine returns the last line of a file, "" if it has none.
func lastLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// goneWithin is the longest time between the end of a program's connections and the end of the program.
const goneWithin = time.Second

// gone replaces the error of a request by the program's error if the program has ended.
func (p *Program) gone(err error) error {
	select {
	case <-p.done:
		return fmt.Errorf("%w: %w", p.ended(), err)
	case <-time.After(goneWithin):
		return err
	}
}
