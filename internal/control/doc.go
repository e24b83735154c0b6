// Package control is the node's side of the control port: requests to the servers over TLS with a pinned key, the
// queue of events that are not sent yet, and the check of a signed assignment.
//
// It owns the order in which servers are tried, and that queue. Init and the agent use it. It must not accept an
// assignment without a valid signature.
package control
