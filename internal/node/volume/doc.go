// Package volume keeps a node's volume, or its swap space, attached over NBD.
//
// It is a process of its own, and owns the device. A unit of the node starts it. It must not read or write a byte
// of the volume, nor open anything that may be swapped out while the server is away.
package volume
