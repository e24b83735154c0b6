// Package control is the node's side of the control port: requests to the servers over TLS with a pinned key,
// events that wait until they can be sent, and the check of a signed assignment.
//
// It owns the order in which servers are tried, and the queue of events. It must not believe what is not signed.
package control
