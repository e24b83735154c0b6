// Package swarm decides how nodes that boot the same version share its objects, so that in a boot storm each byte
// leaves the server about once.
//
// It owns the state of a node's downloads (Fetcher, DemandReads, Joiner, UploadSlots) and of the server's tracker
// (Tracker). Package swarm/peer moves the bytes of a node, swarm/tracker answers over HTTP, and sim runs both on a
// virtual clock. This package must never use a socket, goroutine, lock or clock: a moment is a duration since a start
// that the caller chose, and random numbers are an argument.
//
// The words. A piece is one object of a boot pack, named by its index in the order in which boots read. A demand object
// is in no pack, and is fetched when it is read. A swarm is the nodes that want or have the pieces of one pack. A peer
// is another node of the swarm, known by the address where it serves. The tracker is the server's part: it knows the
// nodes, grants transfers from the server, and names peers. The origin is a server, which has every object. An urgent
// piece is one that a read waits for. Bootstrap files are what a boot starts with: manifest, signature and the pack's
// map. The announce delay is how long a message to the tracker may take on this network.
//
// The messages to the tracker, whose paths are older than these words:
//
//	/swarm/start  join request: which nodes have the bootstrap files?
//	/swarm/join   announcement: where a node serves and what it has; the reply names peers
//	/swarm/ask    piece request: which of these pieces may the node fetch from the server?
//	/swarm/loose  demand request: which nodes have this object?
//	/swarm/wrong  report of wrong bytes
//	/swarm/leave  goodbye
//
// docs/swarm.md describes the whole and its rules.
package swarm
