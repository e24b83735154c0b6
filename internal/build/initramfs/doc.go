// Package initramfs makes the cpio archives that a kernel unpacks as its first root: drivers, microcode, the node's
// program and what it trusts.
//
// It owns the lists of drivers and the writer of archives. The pipeline (internal/build) packs the drivers of a
// version; the server makes the archives with its agent, with the trust of one boot and with drivers of disks. The
// same modules give the same bytes. It must never run a program of the tree, nor log or keep a trust archive: it has
// a secret.
package initramfs
