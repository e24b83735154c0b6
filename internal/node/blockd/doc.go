// Package blockd is the block daemon, which answers the kernel's reads of the root, and the supervisor that replaces it
// when it dies.
//
// It owns the root's NBD device, the counters that both processes share, and the memory that a node gives to its root.
// Package node runs it by argv[0]. It must not open, map or execute anything on the root that it serves.
package blockd
