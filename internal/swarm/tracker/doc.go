// Package tracker is the server's side of the swarms: an HTTP handler over the decisions of package swarm.
//
// It owns the requests that wait for a reply: join requests, piece requests, and objects that nobody granted. The
// server mounts its handler on the image port, asks it before it sends an object, and tells it what was sent. It never
// decides by itself, opens no connection, and keeps nothing that a restart must not lose.
package tracker
