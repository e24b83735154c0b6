// Package nodecommand gives running nodes commands: the queue of commands that wait for a node's next report, and the
// packet that makes a node report at once.
//
// It owns the queue, in memory. Rooms that act on nodes put commands in; the room that takes reports hands them out. It
// must never keep a command for later than its requester waits.
package nodecommand
