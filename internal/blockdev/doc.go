// Package blockdev reads a root file system at any offset: raw offset, index root, index page, chunk, object, raw
// bytes. A boot pack, if there is one, answers reads of the blocks that it has; if a piece of it is lost, its blocks
// are read as chunks.
//
// It owns the caches of index pages and raw chunks, and the positions of blocks in a boot pack. The block daemon opens
// a Device; the lab and the tests do too. It must never return a byte that did not match its digest: sources return
// chunk.Verified, which only a matching digest makes.
package blockdev
