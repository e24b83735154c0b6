// Package api holds the wire types of Pando's HTTP API and its client. It has two halves.
//
// The node half (node.go) is what a booting node and the server say to each other over the control channel.
//
// The operator half is what people and programs use: the same routes under /v1/ on a unix socket in the data
// directory, where the file's mode is the permission, and over TLS 1.3 with "Authorization: Bearer", where a
// token is. A token string carries the server's public key, so a client pins the key and needs neither a
// certificate authority nor a host name. Durations on the wire are nanoseconds, sizes are bytes, times are
// RFC 3339. A client ignores fields that it does not know; a server refuses them.
//
// The words are those of package fleet. A selection is a node set as a person writes it, "pc[001-120]!pc007",
// "@group" or "label=value&@group"; the server resolves it.
package api
