// Package rawdigest remembers which object of a store holds which raw bytes.
//
// It owns the file raw-digests of a store directory, to which records are only appended. build, build/rootfs and
// build/packer call it: what is stored is not compressed again, and a new version of the compressor does not rename
// it. It must never return an entry whose object the store does not have. Losing the file costs time only.
package rawdigest
