// Package server is a site's server: everything that answers nodes and operators, in one process. The package itself
// only wires its rooms: it opens what is kept, listens, and maps routes to rooms.
//
// The image port (8480) is plain HTTP: immutable objects by digest, manifests, and the files that firmware needs. The
// control port (8443) is TLS 1.3 with the server's key, which nodes and operators pin. Operators use the API there
// with a token, or on a unix socket without one.
//
// It owns the listeners and the order of start and end. The command line calls New, which opens keys, registry and
// store, and Run, which serves until its context ends or a part fails. It must never decide what a room decides.
package server
