package sockopt

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The priorities, from linux/pkt_sched.h, one for each band.
const (
	Message = 6 // DHCP, TFTP, requests, replies, news of pieces
	First   = 0 // the oldest upload, and everything without a priority
	Bulk    = 2
)

// Set sets the priority of all bytes that a socket sends from now on. It reports whether the system accepted it.
func Set(c syscall.Conn, priority int) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var set error
	err = raw.Control(
		func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, priority) },
	)
	return err == nil && set == nil
}
