package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ended explains an error of os/exec for a person: which signal ended the program, what may have sent it, and what to
// do. If ctx ended the program, Ended returns the cause. Other errors are returned unchanged.
func Ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("it did not end in time: %w", cause)
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

// Unwrap returns the error of os/exec.
func (e *KilledError) Unwrap() error { return e.err }

// KilledText says which signal ended a program, what may have sent the signal, and what to do.
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
