// Package cache keeps objects on a node, so that a boot does not fetch what an earlier one had: on a disk, a
// partition or a stick, across boots, or in memory for one boot.
//
// The words. An area is the bytes that a Disk has: a partition, or a whole disk. It has no file system; nothing is
// mounted, checked or repaired before the root is there. It is cut into segments, which are written one after the
// other, round and round: what was written first goes first, unless it was read lately and is written again. A
// table says what is in a segment. A record is a small named value, the last one written; it is for those who boot
// from the disk without a server.
//
// The cache is never believed. What comes out of it was checked against its digest, as what comes from the network
// is, so neither a torn write nor a hostile disk is more than a miss. A Disk that fails is one that has nothing.
//
// The bytes are specified in docs/formats/cache.md.
package cache
