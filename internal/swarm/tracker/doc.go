// Package tracker is the server's side of the swarms: an HTTP handler over the decisions of package swarm.
//
// It owns the requests that are held open: join requests, piece requests, and requests for ungranted objects. The
// server mounts its handler on the image port, asks it before it sends an object, and tells it what was sent. This
// package never decides by itself, opens no connection, and keeps nothing that a restart must not lose.
package tracker
