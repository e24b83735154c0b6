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
	Env  []string // added to PATH, LC_ALL, TZ and HOME, which are always set
	Each func(line string)
	Hint string // how to install the program, for the error if it is missing
}

// Run runs the program in its own process group and waits for it. When ctx ends, the group gets SIGTERM, and SIGKILL
// ten seconds later. When this process dies, the program gets SIGTERM. As root it has its own mount namespace: mounts
// that outlive an installer would let the removal of its tree delete what is mounted.
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
	// Descriptors of this process, such as that of a lock, are not inherited: with more of them than usual, apt
	// passes mmdebstrap a descriptor of two digits, which the shell does not accept.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // fails before Linux 5.11: they are inherited there
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that it may have left behind
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

// Error means that a foreign program failed. It has the end of the program's output.
type Error struct {
	Program string
	Status  string // "exit status 25", or the signal that ended it
	Tail    []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s; the end of its output:\n    %s", e.Program, e.Status, strings.Join(e.Tail, "\n    "))
}

// readLines calls each with every line that is not empty, and returns the last TailLines of them.
func readLines(r io.Reader, each func(string)) []string {
	var tail []string
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadString('\n')
		if i := strings.LastIndexByte(strings.TrimRight(line, "\r\n"), '\r'); i >= 0 {
			line = line[i+1:] // keep only the last state of a progress bar
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
