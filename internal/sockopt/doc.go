// Package sockopt sets the priority of sockets (SO_PRIORITY), so that a machine sends small messages before bulk data.
//
// The default queue of a Linux interface, pfifo_fast, has three bands, and sends from one only while the bands before
// it are empty. The priority is not in the packet, and other queues ignore it.
//
// It owns the priorities and the Scheduler of uploads. Servers and nodes call it for messages and uploads. It must
// never order anything but a Scheduler's uploads.
package sockopt
