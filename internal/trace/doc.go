// Package trace makes sense of the events of a boot.
//
// The words. A stage is a point in the fixed list that every boot passes, from the firmware's first packet (dhcp)
// to the image's default target (booted). An event is one record of a stage: it began, ended, failed, or a
// fact became known. The timeline of a boot is its events put together, one step for each stage. Its
// progress is the same in one line, folded event by event, for tables of many boots. A mark is a stage that an
// image made itself; it has a place in the time and none in the order.
//
// The stages before init happen on the server's clock. The node counts from its own init and knows no time of
// day; the server learns once when that was, so that one shift joins the two clocks.
//
// A read trace is another thing: which blocks of the root a boot read, in order, with times. Its bytes are
// specified in docs/formats/read-trace.md.
//
// Nothing here does I/O or reads a clock.
package trace
