package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/command"
)

// Command is a program that runs in a tree of files as its root. It sees only its own processes, and uses this
// machine's network. It has /proc, /sys, /dev, /run and /tmp as on a running system, and nothing of these is written
// to the tree.
type Command struct {
	Root     string // the tree
	Tmp      string // directory of this machine that is mounted as /tmp; "": the tree's /tmp
	Hostname string // "": this machine's
	Resolver []byte // content of /etc/resolv.conf; nil: the tree's own

	Args []string // the program, as path or name, and its arguments
	Env  []string
	Dir  string // working directory; "": /

	Stdin  *os.File  `json:"-"` // nil: /dev/null
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
}

// ExitError means that a command inside a tree ended with another status than 0.
type ExitError struct {
	Program string
	Code    int // as in a shell: 128 plus the signal's number if a signal killed it
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s ended with status %d", e.Program, e.Code)
	if s := syscall.Signal(e.Code - statusOfSignal); s > 0 && unix.SignalName(s) != "" {
		text += ": " + command.KilledText(s)
	}
	return text
}

// statusOfSignal is added to a signal's number in the status of a command that the signal killed.
const statusOfSignal = 128

// insideMark is the environment variable that marks the first process of a Command's namespaces.
const insideMark = "PANDO_INSIDE"

// configFD is the descriptor from which that process reads its configuration. Arguments and environment are readable
// by other users.
const configFD = 3

// failed is the exit status if that process could not start the program. Stderr says why.
const failed = 125

// grace is the time that a command has to end after SIGTERM.
const grace = 10 * time.Second

// insideConfig is the input of the first process inside.
type insideConfig struct {
	Command
	Files []placed // in the order in which they are mounted
}

// Run runs the command and waits for it. When ctx ends, the command gets SIGTERM, and ten seconds later all processes
// inside are killed. They are killed at once when this process dies or the command ends.
func (c Command) Run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return fmt.Errorf("run %s inside: %w", c.Args[0], err)
	}
	places, err := place(c.Root, c.files())
	if err != nil {
		return fmt.Errorf("prepare %s: %w", c.Root, err)
	}
	defer func() { err = errors.Join(err, places.restore()) }()
	config, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer config.Close()
	text, err := json.Marshal(insideConfig{c, places.files})
	if err != nil {
		return errors.Join(err, w.Close())
	}
	go func() { // in the background, because the configuration may be larger than the pipe's buffer
		_, _ = w.Write(text) // a child that does not read all of it reports its own error
		w.Close()
	}()
	return c.start(ctx, config)
}

func (c Command) check() error {
	for _, dir := range []string{"dev", "etc", "proc", "run", "sys", "tmp"} {
		if info, err := os.Lstat(c.Root + "/" + dir); err != nil || !info.IsDir() {
			return fmt.Errorf("the tree has no directory /%s, which a system needs", dir)
		}
	}
	return nil
}

// start runs this program again as the first process of new namespaces, and waits for it.
func (c Command) start(ctx context.Context, config *os.File) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{os.Args[0]}
	cmd.Env = append(withoutMark(os.Environ(), insideMark), insideMark+"=1")
	cmd.ExtraFiles = []*os.File{config}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL, // the kernel then kills all processes of the namespace
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	runtime.LockOSThread() // the death signal is sent when this thread ends
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	takeTerminal(c.Stdin)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.Args[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return &ExitError{c.Args[0], statusOf(exit.Sys().(syscall.WaitStatus))}
	}
	return fmt.Errorf("run %s inside: %w", c.Args[0], err)
}

// statusOf returns the exit status as a shell reports it.
func statusOf(w syscall.WaitStatus) int {
	if w.Signaled() {
		return statusOfSignal + int(w.Signal())
	}
	return w.ExitStatus()
}
