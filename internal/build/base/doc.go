// Package base makes a writable copy of an image version: its root file system is mounted, and what changes goes to
// the upper layer of an overlay beside it.
//
// It owns the mounts, until Close, and the parts base.erofs, root, lower and overlay of a work directory. The
// pipeline (internal/build) calls it for recipes that begin with an image, for commands in an image and for
// extensions. It must never change the version that was copied.
package base
