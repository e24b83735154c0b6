// Package sim runs a boot storm of thousands of nodes on a virtual clock.
//
// All decisions are those of the code on real nodes and servers: package swarm decides which node fetches what from
// where, and the queue of package netboot decides when a node loads kernel+initrd (K). This package is the network
// between them: links with rates, delays, and machines that fail.
//
// A fleet is nodes and servers with their links. A link is full duplex; each direction is a queue that empties at the
// link's rate, so transfers share it. A storm is all nodes of a fleet starting together. W is the bytes that a boot
// reads, B the rate of a node's link and S that of a server's. A time in units of W/B is how many times longer than one
// node alone on a perfect link.
//
// It owns the virtual clock and the links. `pando plan` and the tests of package swarm call it. It must never decide
// anything that a real node or server decides. It leaves out packet loss, TCP's slow start, processor time, and
// messages that wait behind data. Rates are goodput, 94 % of the link's nominal rate.
package sim
