// Package api has the types of Pando's HTTP API as they are on the wire, and its client. The node half (node.go) is
// what a booting or running node and the server exchange on the control port. The operator half is what people and
// programs use.
//
// Operators reach the same routes under /v1/ in two ways: on a unix socket in the data directory, where the file's
// mode is the permission, and over TLS 1.3 with a token ("Authorization: Bearer"). A token contains the server's
// public key. A client pins that key, so it needs neither a certificate authority nor a host name.
//
// Durations are nanoseconds, sizes are bytes, times are RFC 3339. A client ignores fields that it does not know; a
// server refuses them. A node set is sent as text, such as "pc[001-120]!pc007" or "label=value&@group", and the server
// resolves it.
//
// It owns the wire format. The server, the nodes and the command line use it. It must never decide what a request
// does.
package api
