// Package api has the types of Pando's HTTP API as they are on the wire, and its client. The node half (node.go) is
// what a booting or running node and the server exchange on the control port. The operator half is what people and
// programs use.
//
// Durations are nanoseconds, sizes are bytes, times are RFC 3339. A client ignores fields that it does not know; a
// server refuses them. A node set is sent as text, such as "pc[001-120]!pc007", and the server resolves it.
//
// It owns the wire format. The server, the nodes and the command line use it. It must never decide what a request does.
package api
