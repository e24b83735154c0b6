// Package state is the server's room for node state: it records what each node keeps and where, gives nodes the
// operators' orders about it, and carries copies from one node to another.
//
// It owns the records and orders of node state, and the spool: files with state that one node has sent and another has
// not fetched yet. Operators and nodes reach it by the routes that the server's wiring registers. It must never give
// state to a node that has not proved its identity, and never fill the disk of the data directory.
package state
