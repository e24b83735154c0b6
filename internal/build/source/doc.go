// Package source unpacks a root file system into a directory, from a container image, a tar archive, a disk image or a
// running machine, and reports where it came from.
//
// It owns the downloads and the unfinished trees in the two directories of a Place: an interrupted run continues with
// them. The build pipeline (internal/build) calls it, and the command line, which makes a source of an argument.
//
// Archives are not trusted. It must never write outside of the root: the kernel resolves every name inside of it
// (openat2), and an existing file is replaced, never written through. It must never fill a disk: a budget bounds bytes
// and files.
package source
