// Package diskreserve keeps room on the disk of a data directory for what must go on when that disk is full.
//
// It owns one file that takes room and holds nothing. The registry gives its room to its own files when a write fails.
// It must never decide what may use the room, and never fail for a file system that cannot reserve any.
package diskreserve
