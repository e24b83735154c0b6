// Package server is a site's server: everything that answers nodes and operators, in one process. The package itself
// only wires its rooms: it opens what is kept, listens, and says which room answers which route.
//
// The data path is plain HTTP: immutable objects by digest, manifests, and what firmware needs before there is an
// agent. The control channel is TLS 1.3 with the server's key, which nodes and operators pin. The operator's API is
// the same on the control channel, with a token, and on a unix socket, without.
//
// New opens keys, registry and store. Run listens, serves and returns when its context ends or a part fails.
package server
