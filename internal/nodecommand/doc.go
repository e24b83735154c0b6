// Package nodecommand gives running nodes commands: it queues them for a node's next report, and sends the packet that
// makes a node report at once.
//
// It owns the queue, in memory. Rooms that act on nodes add commands; the room that takes reports hands them out. It
// must never keep a command for longer than its requester waits.
package nodecommand
