// Package piecestore has the pieces of a node's boot pack: which are held, on their way, dropped, or not to be had.
//
// It owns their bytes as they were sent, the memory that these may take, and the account of which blocks were read. The
// block device reads from a Store and the swarm serves peers from it; both put pieces into it. It decides which pieces
// make room. It must never fetch, verify or unpack anything, nor know who does.
package piecestore
