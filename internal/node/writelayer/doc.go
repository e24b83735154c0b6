// Package writelayer mounts the write layer, which takes a node's writes (in memory, compressed memory, or a
// partition), and the overlay of it on the read-only root.
//
// It owns the file system of the write layer. Init calls it, through the wiring of package node. It must not fail a
// boot because of a disk's content: the node then writes to memory.
package writelayer
