package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TailLines is how much of a program's output goes into the error when it fails.
const TailLines = 30

// Command is a foreign program that a build runs.
type Command struct {
	Args []string
	Env  []string // in addition to a fixed one: PATH, LC_ALL, TZ, HOME
	Each func(line string)
	Hint string // what brings the program, for the error if it is missing
}

// Run runs the program in its own process group and waits for it. When ctx is done the group gets SIGTERM, and SIGKILL
// after ten seconds; when this process dies, the program gets SIGTERM. As root it has its own mount namespace: an
// installer mounts /proc, /sys and devices into its tree, and if they outlived it, removing the tree would remove their
// content.
func (c Command) Run(ctx context.Context) error {
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return fmt.Errorf("%s is not installed: %s", c.Args[0], c.Hint)
	}
	cmd := exec.CommandContext(ctx, path, c.Args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/root"}, c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	// Descriptors that this process was started with, such as a lock's, stay its own: with some more than usual,
	// apt hands mmdebstrap one of two digits, which the shell does not take.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 they are inherited
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%s: %w", c.Args[0], err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	tail := make(chan []string, 1)
	go func() { tail <- readLines(r, c.Each) }()

	runtime.LockOSThread() // the death signal is sent when the thread that started the program ends
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	w.Close()
	if err == nil {
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it may have left behind
	}
	lines := <-tail
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.Args[0], context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &Error{Program: c.Args[0], Status: Ended(ctx, err).Error(), Tail: lines}
	}
	return fmt.Errorf("%s: %w", c.Args[0], err)
}

// Error means that a foreign program failed, with the end of what it said.
type Error struct {
	Program string
	Status  string // "exit status 25", or which signal ended it
	Tail    []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s; the end of its output:\n    %s", e.Program, e.Status, strings.Join(e.Tail, "\n    "))
}

// readLines hands each line to each and returns the last ones.
func readLines(r io.Reader, each func(string)) []string {
	var tail []string
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadString('\n')
		if i := strings.LastIndexByte(strings.TrimRight(line, "\r\n"), '\r'); i >= 0 {
			line = line[i+1:] // a progress bar that was drawn over
		}
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			if tail = append(tail, line); len(tail) > TailLines {
				tail = tail[1:]
			}
			if each != nil {
				each(line)
			}
		}
		if err != nil {
			return tail
		}
	}
}
