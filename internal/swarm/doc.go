// Package swarm decides how nodes that boot the same version share its objects, so that in a boot storm each byte
// leaves the server about once. docs/swarm.md has its words and its rules.
//
// It owns the state of a node's downloads (Fetcher, DemandReads, Joiner, UploadSlots) and of the server's tracker
// (Tracker). Package swarm/peer moves the bytes of a node, swarm/tracker answers over HTTP, and sim runs both on a
// virtual clock. It must never use a socket, goroutine, lock or clock: a moment is a duration since a start that the
// caller chose, and random numbers are an argument.
//
// The messages to the tracker, whose paths are older than these words:
//
//	/swarm/start  join request: which nodes have the bootstrap files?
//	/swarm/join   announcement: where a node serves and what it has; the reply names peers
//	/swarm/ask    piece request: which of these pieces may the node fetch from the server?
//	/swarm/loose  demand request: which nodes have this object?
//	/swarm/wrong  report of wrong bytes
//	/swarm/leave  goodbye
package swarm
