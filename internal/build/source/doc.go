// Package source fills a directory with the root file system that a container image, a tar archive, a disk image or a
// running machine has, and says what that was.
//
// It owns the downloads and half-filled trees in the two directories that it is given (Place): after an interruption
// it continues with them. Each kind of source has a key, which names it whatever it has today, and a state, which says
// what it has now as far as that is known without reading all of it. The build pipeline (internal/build) calls it, and
// cmd/pando, which makes a source of what the operator typed.
//
// Archives are written by strangers. It must never write outside of the root: the kernel looks up every name inside of
// it, links included, and what exists is replaced, never written through. It must never fill a disk: a budget bounds
// bytes and files. A layer is an archive that changes the tree below it: a whiteout takes a file away, an opaque
// directory hides what it had.
package source
