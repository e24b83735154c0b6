// Package volumes is the server's room for the NBD exports of nodes: volumes with their state, and swap space.
//
// It owns the directories of volumes and swap space, and the tickets: a node that has proved its identity on the
// control port gets one, and connects with it on the image port. The server's wiring registers its routes. It must
// never give a node the volume of another node.
package volumes
