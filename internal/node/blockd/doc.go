// Package blockd is the block daemon, which answers the kernel's reads of the root, and its supervisor, which starts a
// new daemon when one dies.
//
// It owns the root's NBD device, the counters that both processes share, and the memory that a node gives to its root.
// Package node runs it by argv[0]. It must not open, map or execute anything on the root that it serves.
package blockd
