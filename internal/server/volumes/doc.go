// Package volumes is the server's room for what nodes reach by NBD: volumes with their state, and their swap space.
//
// It owns the directories of volumes and swap space, and the tickets by which a node that has proved who it is on the
// control port may connect on the image port. The server's wiring registers its routes. It must never give a node the
// volume of another one.
package volumes
