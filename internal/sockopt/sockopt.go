// Package band says in which order a machine sends what waits for its link. The queue that Linux gives an
// interface, pfifo_fast, has three bands, and sends of the next one when there is nothing in those before it. It
// stays within this machine: nothing of it is in a packet. A queue of another kind sends one after the other, as it
// would without.
package sockopt

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The priorities of what is sent, of linux/pkt_sched.h, one for each band.
const (
	Message = 6 // what others wait for: DHCP, TFTP, questions, answers, who has what, acknowledgements
	First   = 0 // the upload whose turn it is, and all that says nothing
	Bulk    = 2
)

// Set gives all that a socket sends from now on a priority. It tells whether the system took it.
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
