// Package blockdev reads a root file system at any offset, by its index, from objects that a Source fetches.
//
// The way of a read: raw offset -> index root -> index page -> entry -> object -> raw bytes. Root and pages are
// objects too. A Source returns chunk.Verified, which only a matching digest can make, so there is no way for
// unverified bytes through this package.
//
// What is kept in memory is small and raw. The kernel's page cache holds what was read once, so a chunk is asked
// for again only by reads near to it in time and place: 4 KiB reads that share a chunk of 64 KiB, and the next
// request of a file that is read from start to end. Keeping chunks raw makes those a copy; keeping them compressed
// would hold twice as many and unpack the same chunk up to sixteen times.
//
// A boot pack answers the reads of the blocks that it has: its pieces hold what boots read, in the order in which
// they do, several files' blocks in one. They are streamed in that order as soon as the device is open, giving way
// to fetches that reads wait for; or a PieceFetcher brings them in the order that suits a swarm, as far as there is
// room. A piece is verified when it comes, kept as it was sent, and unpacked when a read needs it. Where all of
// them may be kept they lie in one mapping (package piecestore), and raw bytes are used again (buffers), so that a
// boot makes little garbage. Where there is a processor to spare, the pieces after the one that is read are
// unpacked before a read needs them. Nothing depends on a piece: the blocks of one that is lost come from chunks.
//
// Chunks that several reads want at a time are fetched once. When a file is read in order, the next few chunks are
// fetched before they are asked for, but only with fetches that no read is waiting for.
package blockdev
