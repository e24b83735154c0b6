// Package blockdev reads a root file system at any offset: it looks up the offset in the version's index and fetches
// the object that has it. A boot pack, if there is one, answers reads of the blocks that it has.
//
// It owns the caches of index pages and raw chunks, and the positions of blocks in a boot pack. The block daemon opens
// a Device; the lab and the tests do too. It must never return a byte that did not match its digest: sources return
// chunk.Verified, which only a matching digest makes.
//
// A read goes: raw offset -> index root -> index page -> chunk -> object -> raw bytes. Root and pages are objects too.
// Concurrent reads of a chunk share one fetch. When a file is read in order, the next chunks are fetched ahead, with
// connections that no read is waiting for.
//
// The cache of raw chunks is small, because the kernel's page cache keeps what was read. It serves reads close in time
// and place: 4 KiB reads in the same 64 KiB chunk, and the next request of a sequential read.
//
// The pieces of a boot pack contain the blocks that boots read, in that order. They are streamed as soon as the device
// is open, or a swarm fetches them in its own order. A piece is verified when it arrives, held compressed by the
// PieceStore, and unpacked when a read needs it, or ahead of reads if a processor is idle. If a piece is lost its
// blocks are read as chunks.
package blockdev
