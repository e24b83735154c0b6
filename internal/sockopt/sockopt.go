// Package sockopt sets the priority of sockets (SO_PRIORITY), so that a machine sends small messages before bulk data.
//
// The default queue of a Linux interface, pfifo_fast, has three bands, and sends from one only while those before it
// are empty. The priority is not in the packet, and other queues ignore it.
//
// It owns the priorities and the Scheduler of uploads. Servers and nodes call it for messages and uploads. It must
// never order anything but a Scheduler's uploads itself.
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
