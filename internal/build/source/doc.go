// Package source unpacks a root file system into a directory, from a container image, a tar archive, a disk image or a
// running machine, and reports where it came from.
//
// It owns the downloads and the unfinished trees in the two directories of a Place: an interrupted run continues with
// them. A source has a key, which names it whatever its content, and a state, which identifies its content as far as
// that is known without reading all of it. The build pipeline (internal/build) calls it, and the command line, which
// makes a source of an argument.
//
// Archives are not trusted. It must never write outside of the root: the kernel resolves every name inside of it
// (openat2), and an existing file is replaced, never written through. It must never fill a disk: a budget bounds bytes
// and files. A layer of a container image is an archive that changes the tree below it: a whiteout removes a file, an
// opaque directory hides what a lower layer has there.
package source
