// Package trace interprets the events of a boot.
//
// A stage is a point in the fixed list that every boot passes, from the firmware's first packet (dhcp) to the image's
// default target (booted). An event is one record of a stage: it began, ended, failed, or a fact became known. The
// timeline of a boot is made of its events, one step for each stage. Its progress is a summary in one line, updated
// event by event, for tables of many boots. A mark is a stage that an image defines itself; it has a time and no place
// in the list.
//
// The server's clock times the stages before init. The node counts from its own init without a time of day. The server
// learns once when that was, and one offset joins both clocks.
//
// A read trace is something else: the blocks of the root that a boot read, in order, with times
// (docs/formats/read-trace.md).
//
// It owns the list of stages and the format of read traces. The server, the nodes and the command line use it. It must
// never do I/O or read a clock.
package trace
