// Package zstdcmd compresses with the program zstd, which has levels that Go's package lacks.
//
// It owns no state. build/initramfs and build/packer call it for what is compressed once and sent to every node. The
// result depends on the release of the program: it must never compress bytes that the digest of a version covers.
package zstdcmd
