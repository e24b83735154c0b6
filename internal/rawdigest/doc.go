// Package rawdigest remembers which object of a store has which raw bytes.
//
// It owns the file raw-digests of a store directory, to which records are only appended. build, build/rootfs and
// build/packer call it, so that stored bytes are not compressed again, and a new version of the compressor does not
// rename them. It must never return an entry whose object the store does not have. If the file is lost only time is
// lost.
package rawdigest
