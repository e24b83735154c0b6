package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ended puts the end of a program into words: which signal ended it, who may have sent it, and what to do. If ctx
// ended it, that is why. Other errors stay as they are.
func Ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("it did not end in the time that it had: %w", cause)
	} else if cause != nil {
		return cause
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &KilledError{status.Signal(), err}
	}
	return err
}

// KilledError means that a signal ended a program.
type KilledError struct {
	Signal syscall.Signal
	err    error
}

func (e *KilledError) Error() string { return KilledText(e.Signal) }

// Unwrap returns what os/exec says.
func (e *KilledError) Unwrap() error { return e.err }

// KilledText tells of a signal that ended a program who may have sent it, and what to do.
func KilledText(s syscall.Signal) string {
	name := unix.SignalName(s)
	switch s {
	case syscall.SIGKILL:
		return "it was killed (" + name + "), by the kernel for want of memory or by somebody: " +
			"`journalctl -k --grep 'out of memory'` tells; free some memory and run it again"
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return "it was told to stop (" + name + ") by somebody on this machine: run it again"
	case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGABRT, syscall.SIGFPE:
		return "it crashed (" + name + "): `coredumpctl list` may have more; bring the program up to date"
	}
	return "it was ended by the signal " + name + ": run it again"
}
