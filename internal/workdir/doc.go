// Package workdir keeps what a build has not finished, so that an interrupted one goes on where it was.
//
// It owns a directory for each thing that is built: its parts (a tree, a raw image), a stamp for each part that says
// of what it was made and that it is whole, and a lock that one build at a time has. internal/build and its rooms
// call it, and the server's garbage collection lists and removes directories. It must never use a part without a
// stamp of the same kind and revision, nor remove a directory on which something is mounted.
package workdir
