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

// Command runs inside a tree: the tree is its root, it sees only its own processes, and it has this machine's network.
// It has /proc, /sys, /dev, /run and /tmp as on a running system; nothing of these is written to the tree.
type Command struct {
	Root     string // the tree
	Tmp      string // directory of this machine that is /tmp inside; "": the tree's own
	Hostname string // "": this machine's
	Resolver []byte // /etc/resolv.conf inside; nil: the tree's own

	Args []string // the program, by path or by name, and its arguments
	Env  []string
	Dir  string // where it starts; "": /

	Stdin  *os.File  `json:"-"` // nil: nothing to read
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
}

// ExitError means that a command inside did not end well.
type ExitError struct {
	Program string
	Code    int // as a shell counts: 128 and the signal for a killed one
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s ended with status %d", e.Program, e.Code)
	if s := syscall.Signal(e.Code - statusOfSignal); s > 0 && unix.SignalName(s) != "" {
		text += ": " + command.KilledText(s)
	}
	return text
}

// statusOfSignal is what a shell adds to the number of the signal that ended a command.
const statusOfSignal = 128

// insideMark is the variable by which a process knows that it is the first one of a Command's namespaces.
const insideMark = "PANDO_INSIDE"

// configFD is where that process reads what to do; a path or an environment would show it to everybody.
const configFD = 3

// failed is the status with which that process says that it could not even start the program; Stderr says why.
const failed = 125

// grace is how long a command has for ending after SIGTERM.
const grace = 10 * time.Second

// insideConfig is what the first process inside is told.
type insideConfig struct {
	Command
	Files []placed // in order
}

// Run runs the command and waits for it. When ctx is done it gets SIGTERM, and ten seconds later all inside are
// killed; so are they when this process dies, and those that are left when the command ends.
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
	go func() { // a pipe may hold less than the configuration has
		_, _ = w.Write(text) // who reads less fails by itself
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

// start starts this program again, as the first process of new namespaces, and waits for it.
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
		Pdeathsig:  syscall.SIGKILL, // and with the first process of a namespace all others end
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	runtime.LockOSThread() // the death signal is sent when the thread that started the process ends
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

// statusOf is the exit status as a shell counts.
func statusOf(w syscall.WaitStatus) int {
	if w.Signaled() {
		return statusOfSignal + int(w.Signal())
	}
	return w.ExitStatus()
}
