// Package zstdcmd compresses with the program zstd, which has levels that Go's package lacks.
//
// It owns no state. build/initramfs and build/packer call it for what is packed once and sent to every node. What
// the program makes depends on its release: it must never pack bytes that the digest of a version covers.
package zstdcmd
