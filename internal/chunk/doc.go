// Package chunk defines how a root file system is cut into chunks, how a chunk is compressed and named, and how the
// index finds the chunk of an offset.
//
// A chunk is an extent of raw bytes that is compressed and verified as one; it starts and ends on a block of 4 KiB. An
// object is a chunk or an index page as it is stored and sent. Its name is the SHA-256 of those bytes, so they are
// verified before they are decompressed. The index has two levels: the manifest names a root, which lists pages, and a
// page lists chunks. A reader fetches only the pages that it needs.
//
// It owns these formats (docs/formats/chunk-index.md). The build, the store and the nodes use it. It must never open a
// file or a socket, or read a clock.
package chunk
