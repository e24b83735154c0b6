// Package cache keeps objects on a node, so that a boot does not fetch what an earlier boot fetched: on a disk, a
// partition or a USB stick, or in memory for one boot.
//
// It owns the bytes of the area that it is given, which has no file system, so nothing is mounted, checked or repaired
// before the root is there. docs/formats/cache.md describes them.
//
// The block daemon and init use it. It must never be trusted: every object is checked against its digest when it is
// read, so a torn write or a hostile disk is a miss. A disk that fails is treated as empty.
package cache
