// Package server is a site's server: everything that answers nodes and operators, in one process.
//
// The words. The data path is plain HTTP: immutable objects by digest, manifests, and what firmware needs before
// there is an agent. The control channel is TLS 1.3 with the server's key, which nodes and operators pin. The
// operator's API is the same on the control channel, with a token, and on a unix socket, without. An
// exchange is a DHCP conversation that showed which address a MAC has; it is what a boot's token is bound to.
// A stranger is a MAC that no node has.
//
// New opens everything that is kept: keys, registry, store. Run listens, serves and returns when its context
// ends or a part fails. The parts are listed there, one after another; there is no other wiring. Handlers
// return errors and one adapter writes them. Everything that happens in a boot goes through record, and from
// there through registry.Append.
package server
