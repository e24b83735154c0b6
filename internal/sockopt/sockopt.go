// Package sockopt sets the priority of sockets (SO_PRIORITY): in which order a machine sends what waits for its link.
//
// The default queue of a Linux interface, pfifo_fast, has three bands, and sends of one only while those before it are
// empty. Nothing of it appears in a packet, and other queues ignore it. Servers and nodes use it for messages and
// uploads. It decides no order itself, but for that of a Scheduler's uploads.
package sockopt

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The priorities, of linux/pkt_sched.h, one for each band.
const (
	Message = 6 // DHCP, TFTP, requests, replies, news of pieces
	First   = 0 // the oldest upload, and everything without a priority
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
