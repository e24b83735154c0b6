package mount

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeTerminal makes this process the one that the keyboard's Ctrl-C is for again: a shell has made itself that,
// and cannot give it back to a process that it does not see.
func takeTerminal(stdin *os.File) {
	if stdin == nil {
		return
	}
	fd := int(stdin.Fd())
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		return // not a terminal
	}
	signal.Ignore(syscall.SIGTTOU) // which would stop a process that is not yet it
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(syscall.SIGTTOU)
}
