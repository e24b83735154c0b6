// Package piecestore has the pieces of a node's boot pack, and records which are held, under way, dropped or lost.
//
// It owns their stored bytes, the memory that these may take, and the account of which blocks were read. The block
// device reads from a Store and the swarm serves peers from it; both put pieces into it. It decides which pieces are
// dropped to make room. It must never fetch, verify or unpack anything, nor depend on the code that does.
package piecestore
