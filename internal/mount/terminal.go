package mount

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeTerminal makes this process's group the foreground group of the terminal again, so that Ctrl-C reaches it. A
// shell inside made itself the foreground group, and cannot name a group outside of its PID namespace.
func takeTerminal(stdin *os.File) {
	if stdin == nil {
		return
	}
	fd := int(stdin.Fd())
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		return // not a terminal
	}
	signal.Ignore(syscall.SIGTTOU) // SIGTTOU would stop a background process here
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
	signal.Reset(syscall.SIGTTOU)
}
