// Package peer lets nodes that boot the same version give each other its objects, so that in a boot storm each byte
// leaves the server about once.
//
// The words. A piece is one object of a boot pack, named by its place in it; the pack's order is the order in which
// a boot reads. A swarm is the nodes that want or have the pieces of one pack. A peer is another node of the swarm,
// known by the address at which it serves objects. The tracker is the server's part: it knows who is there and what
// left the server already, and says who fetches which piece from the server. The origin is where any object can be
// had: a server. A demand is a read that waits; everything else is fetched because it will be read. A loose object
// is one that is in no pack.
//
// Nodes are simple and the server directs. A node takes from its peers the rarest of the next few pieces that it
// misses; it asks the tracker when no peer that it knows has one of them. It tells who watches it which pieces it
// has. Nothing here is needed to boot: without peers, or without a tracker, every piece comes from the origin.
//
// Swarm, LooseReads, StartAsks and Uploads decide for a node, Tracker for a server. They have no socket, goroutine
// or clock: a moment is a duration since one that the caller chose, and chance comes from a source that the caller
// gives. Node, StartPeers, TrackerServer and the client move bytes for them. Package sim drives the same decisions
// on a clock of its own.
//
// What goes over the wire is specified in docs/swarm.md.
package swarm
