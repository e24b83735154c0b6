// Package sim runs a boot storm of thousands of nodes on a virtual clock. Whom a node asks for what its boot starts
// with, for the pieces of its pack and for demand objects, who waits for whom, and what the server allows, and when,
// is decided by the code that runs on real nodes and servers, package swarm and the queue for K of package netboot;
// this package is the network between them: links with rates, delays, machines that die.
//
// The words. A fleet is nodes and servers with their links. A link is full duplex; each direction is a queue that
// empties at the link's rate, so transfers share it in turn. A storm is all nodes of a fleet starting together. W
// is the bytes of the boot set, B the rate of a node's link and S that of a server's; a time in units of W/B is how
// many times longer than one node alone on a perfect link.
//
// It leaves out: loss, TCP's slow start, the processors' time, and that messages wait behind bytes. Rates are taken
// as goodput, 94 % of what the link is called.
package sim
