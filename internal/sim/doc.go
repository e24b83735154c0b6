// Package sim runs a boot storm of thousands of nodes on a virtual clock. It is the network between nodes and servers:
// links with rates, delays, and machines that fail.
//
// It owns the virtual clock and the links. `pando plan` and the tests of package swarm call it. It must never decide
// anything that a real node or server decides: package swarm decides which node fetches what from where, and package
// netboot when a node loads kernel+initrd (K).
//
// It leaves out packet loss, TCP's slow start, processor time, and messages that wait behind data.
package sim
