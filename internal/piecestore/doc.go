// Package piecestore keeps the pieces of a boot pack, as they were sent, in memory outside of the heap.
//
// It owns that memory. The block device puts pieces into it and reads from it, and the swarm serves peers from what the
// device keeps. It must never fetch or unpack anything, nor decide which pieces stay: whoever uses it does.
package piecestore
