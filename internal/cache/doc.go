// Package cache keeps objects on a node, so that a boot does not fetch what an earlier boot fetched: on a disk, a
// partition or a USB stick, or in memory for one boot.
//
// It owns the bytes of the disk or partition that it is given (an area). An area has no file system, so nothing is
// mounted, checked or repaired before the root is there. It is divided into segments, which are written as a ring; an
// object that was read recently is written again before its segment is overwritten. Each segment has a table of its
// objects. A record is a small named value, of which the latest counts; boots without a server need them.
//
// The block daemon and init use it. It must never be trusted: every object is checked against its digest when it is
// read, so a torn write or a hostile disk is a miss. A disk that fails is treated as empty. docs/formats/cache.md
// describes the bytes.
package cache
