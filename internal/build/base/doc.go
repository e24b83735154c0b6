// Package base makes a writable copy of an image version: it mounts the root file system of the version and an overlay
// on it, whose upper layer takes the changes.
//
// It owns the mounts, until Close, and the parts base.erofs, root, lower and overlay of a work directory. The pipeline
// (internal/build) calls it for recipes that begin with an image, for commands in an image and for extensions. It must
// never change the version that was copied.
package base
