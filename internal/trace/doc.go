// Package trace interprets the events of a boot: as its timeline, one step for each stage, and as its progress, a
// summary in one line.
//
// The server's clock times the stages before init. The node counts from its own init without a time of day. The server
// learns once when that was, and one offset joins both clocks.
//
// It owns the list of stages and the format of read traces (docs/formats/read-trace.md): the blocks of the root that a
// boot read, in order, with times. The server, the nodes and the command line use it. It must never do I/O or read a
// clock.
package trace
