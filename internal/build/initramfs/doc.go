// Package initramfs makes the cpio archives that a kernel unpacks as its first root: drivers, microcode, the node's
// program, and the keys that the node trusts.
//
// It owns the lists of drivers and the writer of archives. The pipeline (internal/build) packs the drivers of a
// version; the server makes the archives with the node's program, the keys of one boot, and disk drivers. The same
// modules give the same bytes. It must never run a program of the tree, and never log or keep a trust archive: that
// has a secret.
package initramfs
