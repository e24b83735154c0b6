// Package volume attaches a node's volume, or its swap space, over NBD, and reconnects it.
//
// It runs as a separate process, which a unit of the node starts, and owns the device. It must not read or write a
// byte of the volume, and must not open anything that may be swapped out while the server is unreachable.
package volume
