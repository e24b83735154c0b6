// Package writelayer mounts what takes a node's writes (memory, compressed memory, or a partition) and the overlay
// over that and the read-only root.
//
// It owns the file system of the write layer. Init calls it, through the wiring of package node. It must not fail a
// boot because of what a disk has: the node writes to memory then.
package writelayer
