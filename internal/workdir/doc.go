// Package workdir keeps the unfinished parts of a build, so that an interrupted build continues.
//
// It owns a directory for each thing that is built: its parts (a tree, a raw image), a stamp for each finished part
// that reports what it was made of, and a lock that one build at a time has. internal/build and its rooms call it, and
// the server's garbage collection lists and removes directories. It must never use a part without a stamp of the same
// kind and revision, and never remove a directory on which something is mounted.
package workdir
